"""Azure Table storage as an output."""
