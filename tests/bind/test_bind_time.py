"""TIMESTAMP BY, OVER, PARTITION BY and the look-back of a plan."""

import pytest

from support.binding import CLOSED, aggregate, field, found, node, plan, project, scan
from tideglass.bind.catalog import InputInfo
from tideglass.core.time import TICKS_PER_DAY, TICKS_PER_MINUTE, TICKS_PER_SECOND
from tideglass.plan.expressions import Call, Literal, Ref
from tideglass.plan.nodes import InputScan, Named
from tideglass.plan.spans import input_spans_ticks, look_back_ticks, step_spans_ticks

MINUTE = "TumblingWindow(minute, 1)"


def test_without_timestamp_by_an_input_runs_on_arrival_time():
    assert scan("SELECT a FROM s").timestamp is None


def test_timestamp_by_is_an_expression_over_the_fields_of_the_event():
    text = "SELECT a FROM s TIMESTAMP BY DATEADD(millisecond, t, '1970-01-01T00:00:00Z')"
    call = Call("dateadd", (Literal("millisecond"), field("t"), Literal("1970-01-01T00:00:00Z")))
    assert scan(text).timestamp == call


def test_in_timestamp_by_the_columns_of_a_known_input_are_fields_too():
    assert scan("SELECT Id FROM s TIMESTAMP BY S.id", CLOSED).timestamp == field("Id")
    assert found("SELECT Id FROM s TIMESTAMP BY t", CLOSED) == [("UNKNOWN_COLUMN", "t")]


def test_over_keys_and_partition_keys_belong_to_the_scan():
    text = "SELECT a FROM s TIMESTAMP BY t OVER d.id, PartitionId PARTITION BY PartitionId"
    partition = Ref("$partition")
    assert scan(text) == InputScan("s", field("t"), (field("d", "id"), partition), (partition,))
    assert scan("SELECT a FROM s PARTITION BY PartitionId TIMESTAMP BY t").partition_by == (partition,)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("SELECT a FROM s TIMESTAMP BY System.Timestamp()", "SYSTEM_TIMESTAMP_HERE", "System.Timestamp()"),
        (
            "SELECT a FROM s TIMESTAMP BY t OVER System.Timestamp()",
            "SYSTEM_TIMESTAMP_HERE",
            "System.Timestamp()",
        ),
        ("SELECT a FROM s TIMESTAMP BY MAX(t)", "AGGREGATE_NOT_ALLOWED", "MAX(t)"),
        ("SELECT a FROM s PARTITION BY b INTO 1", "PARTITION_COUNT", "PARTITION BY b INTO 1"),
        ("SELECT a FROM (SELECT a FROM s) AS d TIMESTAMP BY a", "TIMESTAMP_BY_ON_STEP", "TIMESTAMP BY a"),
        (
            "WITH w AS (SELECT a FROM s) SELECT a FROM w TIMESTAMP BY a",
            "TIMESTAMP_BY_ON_STEP",
            "TIMESTAMP BY a",
        ),
        (
            "WITH w AS (SELECT * FROM s TIMESTAMP BY b) SELECT a FROM w TIMESTAMP BY a",
            "TIMESTAMP_BY_ON_STEP",
            "TIMESTAMP BY a",
        ),
    ],
)
def test_where_a_timestamp_cannot_come_from(text: str, code: str, words: str):
    assert found(text) == [(code, words)]


def test_timestamp_by_on_a_step_that_is_only_a_star_is_pushed_down_to_its_input():
    job = plan("WITH w AS (SELECT * FROM s PARTITION BY k) SELECT w.a FROM w TIMESTAMP BY t")
    (output,) = job.outputs
    assert job.steps == ()
    assert output.node == project("SELECT a FROM s TIMESTAMP BY t PARTITION BY k")


def test_each_select_that_reads_an_input_has_its_own_scan():
    job = plan("SELECT a INTO x FROM s TIMESTAMP BY t SELECT a INTO y FROM s TIMESTAMP BY u")
    assert [output.node.child for output in job.outputs] == [
        InputScan("s", field("t")),
        InputScan("s", field("u")),
    ]


def test_all_inputs_use_over_or_none_does():
    text = "SELECT a INTO x FROM s TIMESTAMP BY t OVER k SELECT a INTO y FROM r TIMESTAMP BY t"
    assert found(text) == [("MIXED_OVER", "r")]
    assert plan(text.replace("r TIMESTAMP BY t", "r TIMESTAMP BY t OVER k")).inputs == ("s", "r")


def test_a_substream_key_must_be_a_grouping_key():
    text = f"SELECT COUNT(*) AS n FROM s TIMESTAMP BY t OVER k GROUP BY {MINUTE}"
    assert found(text) == [("SUBSTREAM_KEY_NOT_GROUPED", MINUTE)]
    assert aggregate(text.replace("GROUP BY", "GROUP BY k,")).keys == (Named("$k0", field("k")),)


def test_a_substream_key_is_followed_through_steps_that_rename_it():
    text = "WITH w AS (SELECT k AS device, a FROM s TIMESTAMP BY t OVER k) "
    text += f"SELECT COUNT(*) AS n FROM w GROUP BY device, {MINUTE}"
    assert aggregate(text).keys == (Named("$k0", Ref("device")),)
    assert found(text.replace("device, Tum", "a, Tum")) == [("SUBSTREAM_KEY_NOT_GROUPED", f"a, {MINUTE}")]


def test_a_substream_key_is_followed_through_stars_windows_and_unions():
    text = f"""WITH all_rows AS (SELECT * FROM s TIMESTAMP BY t OVER k WHERE a = 1),
        both AS (SELECT k, a FROM all_rows UNION SELECT k, b AS a FROM all_rows),
        counted AS (SELECT k AS key, COUNT(*) AS n FROM both GROUP BY k, {MINUTE})
        SELECT SUM(n) AS total FROM counted GROUP BY key, TumblingWindow(hour, 1)"""
    assert aggregate(text).keys == (Named("$k0", Ref("key")),)
    lost = text.replace("BY key,", "BY n,")
    assert found(lost) == [("SUBSTREAM_KEY_NOT_GROUPED", "n, TumblingWindow(hour, 1)")]


def test_a_step_that_loses_a_substream_key_cannot_be_grouped():
    text = (
        f"WITH w AS (SELECT a FROM s TIMESTAMP BY t OVER k) SELECT COUNT(*) AS n FROM w GROUP BY a, {MINUTE}"
    )
    assert found(text) == [("SUBSTREAM_KEY_NOT_GROUPED", f"a, {MINUTE}")]
    replaced = text.replace("SELECT a FROM s", "SELECT 1 AS k, a FROM s").replace("BY a, T", "BY k, T")
    assert found(replaced) == [("SUBSTREAM_KEY_NOT_GROUPED", f"k, {MINUTE}")]


def test_the_partition_may_be_a_substream_key_and_a_grouping_key():
    text = f"""WITH w AS (SELECT *, System.Timestamp() AS at FROM s TIMESTAMP BY t OVER k, PartitionId)
        SELECT PartitionId, COUNT(*) AS n FROM w GROUP BY k, PartitionId, {MINUTE}"""
    partition = Ref("$partition")
    assert aggregate(text).keys == (Named("$k0", field("k")), Named("$k1", partition))


def test_substream_keys_of_a_known_input_are_followed_by_column():
    text = f"SELECT Id FROM s TIMESTAMP BY name OVER Id GROUP BY Id, {MINUTE}"
    assert aggregate(text, CLOSED).keys == (Named("$k0", Ref("Id")),)
    scanned = aggregate(text, CLOSED).child
    assert scanned == InputScan("s", field("name"), (field("Id"),), columns=("Id", "name", "pos"), open=False)


@pytest.mark.parametrize(
    ("window", "seconds"),
    [
        ("TumblingWindow(second, 10)", 10),
        ("HoppingWindow(second, 60, 5)", 60),
        ("HoppingWindow(second, 5, 60)", 5),
        ("SlidingWindow(second, 10)", 10),
        ("SessionWindow(second, 5, 10)", 25),
        ("SessionWindow(day, 1, 7)", 14 * 86_400),
        ("System.Timestamp()", 0),
        ("Windows(TumblingWindow(second, 10), SlidingWindow(minute, 1))", 60),
    ],
)
def test_a_window_looks_back_by_its_length(window: str, seconds: int):
    top = node(f"SELECT COUNT(*) AS n FROM s GROUP BY {window}")
    assert look_back_ticks(top) == seconds * TICKS_PER_SECOND


def test_sessions_are_capped_at_seven_days_and_one_checking_interval():
    top = node("SELECT COUNT(*) AS n FROM s GROUP BY SessionWindow(day, 6, 5)")
    assert look_back_ticks(top) == 12 * TICKS_PER_DAY


def test_a_query_without_windows_does_not_look_back():
    assert max(input_spans_ticks(plan("SELECT a FROM s WHERE b = 1")).values()) == 0


def test_spans_add_up_along_chains_and_the_longest_branch_counts():
    job = plan(
        f"""WITH one AS (SELECT COUNT(*) AS n FROM s GROUP BY {MINUTE}),
        two AS (SELECT n FROM one UNION SELECT n FROM s),
        three AS (SELECT SUM(n) AS n FROM two GROUP BY TumblingWindow(minute, 5))
        SELECT n INTO a FROM three SELECT n INTO b FROM one"""
    )
    minutes = {name: ticks // TICKS_PER_MINUTE for name, ticks in step_spans_ticks(job).items()}
    assert minutes == {"one": 1, "two": 1, "three": 6}
    assert max(input_spans_ticks(job).values()) == 6 * TICKS_PER_MINUTE


def test_reference_data_takes_no_part_in_substreams():
    inputs = {"s": InputInfo("s"), "r": InputInfo("r", "reference")}
    joined = "SELECT s.a FROM s TIMESTAMP BY t OVER k JOIN r ON s.a = r.a"
    assert plan(joined, inputs).inputs == ("s",)
    grouped = joined.replace("s.a", "COUNT(*) AS n", 1) + " GROUP BY TumblingWindow(second, 5)"
    assert [code for code, _ in found(grouped, inputs)] == ["SUBSTREAM_KEY_NOT_GROUPED"]
