"""The fuzzer: damaged queries, projects, events, messages and job files, and what must hold for all of them.

`README.md` tells how to run it and what it checks.
"""
