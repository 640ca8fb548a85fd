"""Where events come from: partitions, positions in them, and reading between two positions."""
