"""Names, windows and steps of a query resolved; everything wrong with it found at once."""
