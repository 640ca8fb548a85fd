"""What people see of a run: status, journal, metrics, profile."""
