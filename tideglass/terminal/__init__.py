"""A job in a terminal: what `tideglass top` shows, and how one goes through it."""
