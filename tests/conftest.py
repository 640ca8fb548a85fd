"""Before the whole run: how deep properties go, and its order, from what is fast to what starts Spark."""

import pytest
from hypothesis import settings

from support.depth import DEEP, SHALLOW

# No deadline: how long an example takes tells of what else the machine does.
settings.register_profile("deep", max_examples=DEEP, deadline=None)
settings.register_profile("default", max_examples=DEEP // SHALLOW, deadline=None)
settings.load_profile("default")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A broken layer or a broken kernel is reported before the first JVM starts."""
    items.sort(
        key=lambda item: (item.get_closest_marker("spark") is not None, "architecture" not in item.nodeid)
    )
