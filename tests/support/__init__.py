"""What tests share: case files, drivers, strategies, worlds. No test is imported by another."""
