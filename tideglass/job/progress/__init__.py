"""The progress of a run, kept so that the next one can go on."""
