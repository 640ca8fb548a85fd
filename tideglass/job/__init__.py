"""ASA project files, settings, runs and their metrics."""
