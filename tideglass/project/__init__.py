"""ASA project files: reading, checking, test cases."""
