"""Steps that are aligned with the partitions of the input: one exchange for all of them, whole partitions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from oracle.strategies import Trial, events, without_mixed_text
from oracle.strategies import settings as time_settings
from support.against_oracle import check_rows, reproducible
from support.depth import depth, some
from support.harness import Manner, compiled_for, manners
from tideglass.core.types import Type, field
from tideglass.engine.key_groups import partition_groups_of
from tideglass.plan.topology import AlignedSendOp, SendOp

X, Y = "x TIMESTAMP BY t", "y TIMESTAMP BY t"
COUNTED = f"""
    WITH s AS (SELECT PartitionId AS p, k, COUNT(*) AS n FROM {X} PARTITION BY PartitionId
               GROUP BY PartitionId, k, TumblingWindow(second, 3))"""
ALIGNED = {
    "windows over windows": f"""{COUNTED}
        SELECT p, SUM(n) AS n, MAX(k) AS k FROM s GROUP BY p, TumblingWindow(second, 9)""",
    "window over functions": f"""
        WITH s AS (SELECT PartitionId AS p, k,
                          LAG(k) OVER (PARTITION BY PartitionId LIMIT DURATION(second, 8)) AS before FROM {X})
        SELECT p, before, COUNT(*) AS n FROM s GROUP BY p, before, HoppingWindow(second, 6, 2)""",
    "function over windows": f"""
        WITH s AS (SELECT PartitionId AS p, COUNT(*) AS n FROM {X} PARTITION BY PartitionId
                   GROUP BY PartitionId, TumblingWindow(second, 3))
        SELECT p, n, LAG(n) OVER (PARTITION BY p LIMIT DURATION(second, 20)) AS before FROM s""",
    "join": """
        SELECT a.PartitionId AS p, a.k AS k, b.k AS other FROM x a TIMESTAMP BY t JOIN y b TIMESTAMP BY t
        ON a.k = b.k AND a.PartitionId = b.PartitionId AND DATEDIFF(second, a, b) BETWEEN -2 AND 4""",
    "windows joined with events": f"""{COUNTED}
        SELECT s.p, s.n, y.k FROM s LEFT JOIN {Y}
        ON y.PartitionId = s.p AND DATEDIFF(second, s, y) BETWEEN 0 AND 5""",
    "pattern": f"""
        SELECT * FROM {X} MATCH_RECOGNIZE (
            PARTITION BY PartitionId LIMIT DURATION(second, 9)
            MEASURES LAST(A.PartitionId) AS p, LAST(B.k) AS k AFTER MATCH SKIP TO NEXT ROW
            PATTERN (A B) DEFINE A AS A.v >= 0, B AS B.k = A.k) AS m""",
}
#: Joined with what is no PartitionId, or grouped without it: those rows are spread by hash.
OTHERS = {
    "windows joined by a field": f"""{COUNTED}
        SELECT s.p, s.n, y.v FROM s JOIN {Y} ON y.v = s.p AND DATEDIFF(second, s, y) BETWEEN 0 AND 5""",
    "all partitions": f"""{COUNTED} SELECT k, SUM(n) AS n FROM s GROUP BY k, TumblingWindow(second, 9)""",
    "two inputs, one without partitions": f"""
        WITH u AS (SELECT PartitionId AS p, k FROM {X} UNION SELECT v AS p, k FROM {Y})
        SELECT p, COUNT(*) AS n FROM u GROUP BY p, TumblingWindow(second, 9)""",
}
EVERY = ALIGNED | OTHERS


@pytest.mark.parametrize("name", ALIGNED)
def test_aligned_steps_share_one_exchange_by_partition(name: str) -> None:
    topology = compiled_for(ALIGNED[name], {}, {}).topology
    sends = [op for op in topology.ops if isinstance(op, SendOp)]
    assert topology.levels == 1
    assert sends
    assert all(isinstance(op, AlignedSendOp) for op in sends)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_aligned_is_sent_by_hash(name: str) -> None:
    ops = compiled_for(OTHERS[name], {}, {}).topology.ops
    assert any(type(op) is SendOp for op in ops)


def test_every_key_group_has_as_many_partitions_as_the_others() -> None:
    schema = pa.schema([field("p", Type.BIGINT)])
    for partitions, key_groups, fewest, most in ((4, 2, 2, 2), (32, 8, 4, 4), (5, 2, 2, 3), (2, 8, 0, 1)):
        table = pa.table([pa.array(range(partitions))], schema=schema)
        sizes = np.bincount(partition_groups_of(table, "p", key_groups), minlength=key_groups)
        assert (sizes.min(), sizes.max()) == (fewest, most)


@pytest.mark.parametrize("name", some(EVERY, 2))
@given(st.data(), time_settings(), manners())
@examples(reproducible, max_examples=depth(12))
def test_they_give_the_oracles_rows_in_any_batches_and_restarts(
    name: str, data: st.DataObject, settings: dict[str, str], manner: Manner
) -> None:
    inputs = {n: [without_mixed_text(row) for row in data.draw(events(most=12))] for n in ("x", "y")}
    check_rows(Trial(EVERY[name], inputs, settings), manner)
