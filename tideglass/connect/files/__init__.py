"""Files as inputs and outputs."""
