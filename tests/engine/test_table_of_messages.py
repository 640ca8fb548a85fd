"""Messages between tasks: what their table says of every kind."""

from __future__ import annotations

import pytest

from tideglass.engine import messages
from tideglass.engine.messages import KNOWN_SNAPSHOTS, WATERMARKS, Kind


def test_the_table_names_every_kind_and_its_body() -> None:
    head, *rows = (messages.__doc__ or "").split("\n\n")[1].splitlines()
    body = head.index("body")
    assert [row.split()[0] for row in rows] == [kind.name for kind in Kind]
    assert all(row[body:].strip() for row in rows)


def test_bodies_are_read_as_the_types_they_were_written_of() -> None:
    assert WATERMARKS.of_body(WATERMARKS.body({3: -5, 12: 7})) == {3: -5, 12: 7}
    assert KNOWN_SNAPSHOTS.of_body(KNOWN_SNAPSHOTS.body({"r": 2})) == {"r": 2}


@pytest.mark.parametrize("body", [b'{"3": "5"}', b'{"a": 5}', b"[3]"])
def test_a_body_of_another_shape_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"Expected|Invalid"):
        WATERMARKS.of_body(body)
