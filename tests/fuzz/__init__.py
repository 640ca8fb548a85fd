"""The fuzzer: damaged queries, projects, events, messages and job files, and what must hold for all of them.

`README.md` tells how to run it and what it checks.
"""

import sys
from pathlib import Path

# Queries are played by the harness of the properties.
sys.path.append(str(Path(__file__).resolve().parents[1] / "properties"))
