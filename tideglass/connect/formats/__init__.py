"""What bytes of each format mean: typed columns for the events that can be read, counts for the rest."""
