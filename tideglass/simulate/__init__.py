"""The way of every event through the time policies, as a table and a picture."""
