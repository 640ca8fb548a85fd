"""Reference data: snapshots of tables that streams are joined with, and when each holds (`asa.md` 6.3)."""
