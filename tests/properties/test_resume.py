"""State outlives the plan it was made by, where the new one would have made the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from oracle.strategies import events
from support.depth import depth
from support.harness import Inputs, checkpoint, chunks_of, compiled_for, exact, queues_of, restored
from tideglass.local import LocalDriver, PartitionBatch, rows_by_output
from tideglass.plan.fingerprint import fingerprints, state_ids, state_parts
from tideglass.plan.topology import Topology
from tideglass.testing import rows_in_order

SETTINGS = {"late_arrival": "5s", "out_of_order": "2s"}
PARTITIONS = 3

TUMBLING = "FROM events TIMESTAMP BY t GROUP BY k, TumblingWindow(second, 5)"
JOINED = (
    "FROM events TIMESTAMP BY t JOIN others TIMESTAMP BY t "
    "ON events.k = others.k AND DATEDIFF(second, events, others) BETWEEN 0 AND 4"
)
LAGGED = (
    "WITH steps AS (SELECT k, v, LAG(v) OVER (PARTITION BY k LIMIT DURATION(second, 8)) AS before "
    "FROM events TIMESTAMP BY t) "
)

MATCHED = (
    "WITH pairs AS (SELECT * FROM events TIMESTAMP BY t MATCH_RECOGNIZE (LIMIT DURATION(second, 6) "
    "PARTITION BY k MEASURES A.k AS k, B.v AS v AFTER MATCH SKIP TO NEXT ROW PATTERN (A+ B?) "
    "DEFINE A AS A.v > 0, B AS B.v IS NULL OR B.v < Max(A.v))) "
)

#: A query, and one whose state it has already.
KEPT = {
    "another HAVING": (
        f"SELECT k, COUNT(*) AS n INTO o {TUMBLING}",
        f"SELECT k, COUNT(*) AS n INTO o {TUMBLING} HAVING COUNT(*) > 1",
    ),
    "other names, another output": (
        f"SELECT k, COUNT(*) AS n INTO o {TUMBLING}",
        f"SELECT k AS device, COUNT(*) * 10 AS tens INTO p {TUMBLING}",
    ),
    "a statement less": (
        f"SELECT k, COUNT(*) AS n INTO p FROM events TIMESTAMP BY t GROUP BY k, SlidingWindow(second, 3) "
        f"SELECT v, k INTO q FROM events TIMESTAMP BY t SELECT k, COUNT(*) AS n INTO o {TUMBLING}",
        f"SELECT k, COUNT(*) AS n INTO o {TUMBLING}",
    ),
    "the statements in another order": (
        f"SELECT k, COUNT(*) AS n INTO o {TUMBLING} SELECT COUNT(*) AS n INTO p FROM events TIMESTAMP BY t "
        "GROUP BY HoppingWindow(second, 6, 2)",
        "SELECT COUNT(*) AS n INTO p FROM events TIMESTAMP BY t GROUP BY HoppingWindow(second, 6, 2) "
        f"SELECT k, COUNT(*) AS n INTO o {TUMBLING}",
    ),
    "what is made of a pair": (
        f"SELECT events.k AS k, others.v AS w INTO o {JOINED}",
        f"SELECT others.v AS w, events.k AS device INTO o {JOINED}",
    ),
    "what is made of a match": (
        MATCHED + "SELECT k, v INTO o FROM pairs",
        MATCHED + "SELECT k AS device, COALESCE(v, 0) AS v INTO o FROM pairs WHERE k <> 'c'",
    ),
    "what is made of the row before": (
        LAGGED + "SELECT k, v - before AS more INTO o FROM steps",
        LAGGED + "SELECT k, v + before AS both INTO o FROM steps WHERE before > 0",
    ),
}

#: A query, and one that needs other state.
LOST = {
    "another window": (
        f"SELECT k, COUNT(*) AS n INTO o {TUMBLING}",
        f"SELECT k, COUNT(*) AS n INTO o {TUMBLING.replace('5', '6')}",
    ),
    "another aggregate": (
        f"SELECT k, COUNT(*) AS n INTO o {TUMBLING}",
        f"SELECT k, COUNT(*) AS n, SUM(v) AS s INTO o {TUMBLING}",
    ),
    "another condition before the window": (
        f"SELECT k, COUNT(*) AS n INTO o {TUMBLING}",
        f"SELECT k, COUNT(*) AS n INTO o {TUMBLING.replace('GROUP', 'WHERE v > 0 GROUP')}",
    ),
    "another definition": (
        MATCHED + "SELECT k, v INTO o FROM pairs",
        MATCHED.replace("A.v > 0", "A.v > 1") + "SELECT k, v INTO o FROM pairs",
    ),
    "another time": (
        f"SELECT k, COUNT(*) AS n INTO o {TUMBLING}",
        f"SELECT k, COUNT(*) AS n INTO o {TUMBLING.replace('BY t', 'BY DATEADD(second, 1, t)')}",
    ),
    "rows that wait for the watermark": (
        "SELECT v INTO o FROM events TIMESTAMP BY t",
        "SELECT v INTO o FROM events TIMESTAMP BY t WHERE v > 1",
    ),
    "a statement more": (
        f"SELECT k, COUNT(*) AS n INTO o {TUMBLING}",
        f"SELECT k, COUNT(*) AS n INTO o {TUMBLING} SELECT v INTO p FROM events TIMESTAMP BY t",
    ),
}


def topology_of(query: str, settings: Mapping[str, Any] = SETTINGS) -> Topology:
    return compiled_for(query, {}, settings).topology


def batches_of(topology: Topology, inputs: Inputs, sizes: Sequence[int]) -> list[list[PartitionBatch]]:
    """The same events in the same batches, whatever plan reads them; the last is the end of all."""
    queues = queues_of(topology, inputs, PARTITIONS)
    longest = max(len(rows) for rows in queues.values())
    bounds = [0]
    while bounds[-1] < longest:
        bounds.append(bounds[-1] + sizes[len(bounds) % len(sizes)])
    return [
        [
            PartitionBatch(name, partition, chunks_of(topology, name, rows[first:last], first, 1000))
            for (name, partition), rows in queues.items()
        ]
        for first, last in zip(bounds, [*bounds[1:], bounds[-1] + 1], strict=True)
    ]


def rows_of_batches(
    driver: LocalDriver, batches: Sequence[Sequence[PartitionBatch]], *, ends: bool
) -> list[dict[str, list[str]]]:
    found: list[dict[str, list[str]]] = []
    for number, batch in enumerate(batches, 1):
        messages = driver.run(batch, final=ends and number == len(batches))
        tables = rows_by_output(driver.topology, messages)
        found.append(exact({name: rows_in_order(parts) for name, parts in tables.items()}))
    return found


@pytest.mark.parametrize("name", KEPT)
@given(events(), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.floats(0, 1))
@examples(
    deadline=None,
    max_examples=depth(8),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_a_plan_that_goes_on_with_kept_state_gives_the_rows_it_would_have_given(
    name: str, rows: list[dict[str, Any]], sizes: list[int], share: float
) -> None:
    before, after = (topology_of(query) for query in KEPT[name])
    inputs = {"events": rows, "others": rows}
    undisturbed = rows_of_batches(LocalDriver(after), batches_of(after, inputs, sizes), ends=True)
    cut = round(share * (len(undisturbed) - 1))
    first = LocalDriver(before)
    rows_of_batches(first, batches_of(before, inputs, sizes)[:cut], ends=False)
    second = restored(after, checkpoint(first))
    assert rows_of_batches(second, batches_of(after, inputs, sizes)[cut:], ends=True) == undisturbed[cut:]


@pytest.mark.parametrize("name", KEPT)
def test_all_the_state_of_the_later_plan_is_there(name: str) -> None:
    before, after = (topology_of(query) for query in KEPT[name])
    assert set(state_parts(after)) <= set(state_parts(before))
    assert before.ops != after.ops


@pytest.mark.parametrize("name", LOST)
def test_state_that_another_plan_would_have_made_otherwise_is_not_taken_for_its_own(name: str) -> None:
    before, after = (topology_of(query) for query in LOST[name])
    assert not set(state_parts(after)) <= set(state_parts(before))


@pytest.mark.parametrize(
    "changed",
    [{"late_arrival": "6s"}, {"out_of_order": "3s"}, {"policy": "drop"}, {"compatibility_level": "1.1"}],
)
def test_state_made_under_other_settings_is_not_taken(changed: dict[str, str]) -> None:
    query = f"SELECT k, COUNT(*) AS n INTO o {TUMBLING}"
    now, then = state_parts(topology_of(query)), state_parts(topology_of(query, SETTINGS | changed))
    assert not set(now) <= set(then)


def test_operators_that_do_the_same_keep_their_state_apart() -> None:
    statement = f"SELECT k, COUNT(*) AS n INTO {{}} {TUMBLING} "
    topology = topology_of(statement.format("o") + statement.format("p"))
    assert len(set(fingerprints(topology))) < len(topology.ops)
    assert len(set(state_ids(topology))) == len(topology.ops)
