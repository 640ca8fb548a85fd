"""Order of the whole run: who may import whom first, then what is fast, then what starts Spark."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A broken layer or a broken kernel is reported before the first JVM starts."""
    items.sort(
        key=lambda item: (item.get_closest_marker("spark") is not None, "architecture" not in item.nodeid)
    )
