"""Names: columns, sources, quotes, metadata, steps and inputs."""

import pytest

from support.binding import (
    CLOSED,
    PAYLOAD,
    TIME,
    columns,
    errors,
    field,
    found,
    plan,
    project,
    scan,
    value,
    warned,
)
from tideglass.bind.binder import bind
from tideglass.bind.catalog import METADATA_COLUMNS, InputInfo, metadata_in
from tideglass.core.errors import Source
from tideglass.lang.parser import parse
from tideglass.plan.expressions import Call, Literal, Path, Ref
from tideglass.plan.nodes import InputScan, StepRef


def test_a_name_is_a_field_of_the_event():
    assert value("speed") == field("speed")


def test_a_dotted_name_walks_into_records():
    assert value("a.b.c") == field("a", "b", "c")


def test_a_numeric_member_is_a_field_too():
    assert value("a.[0].c") == field("a", "0", "c")


def test_the_first_part_of_a_dotted_name_may_be_the_source_or_its_alias():
    assert columns("SELECT s.a.b AS v FROM s") == {"v": field("a", "b")}
    assert columns("SELECT X.a.b AS v FROM s AS x") == {"v": field("a", "b")}


def test_the_name_of_an_aliased_source_is_read_as_a_field_with_a_warning():
    assert columns("SELECT s.a AS v FROM s AS x") == {"v": field("s", "a")}
    assert warned("SELECT s.a AS v FROM s AS x") == [("SOURCE_HAS_ALIAS", "s.a")]


def test_level_1_0_lower_cases_fields_and_later_levels_keep_their_case():
    assert value("TollId.Code", level="1.0") == field("tollid", "code")
    assert value("TollId.Code", level="1.1") == field("TollId", "Code")


def test_listed_columns_are_found_exactly_or_by_the_only_match_without_case():
    assert value("ID", CLOSED) == Ref("Id")
    assert value("s.Name.first", CLOSED) == Path(Ref("name"), ("first",))


def test_an_exact_match_wins_over_one_that_differs_by_case():
    both = {"s": InputInfo("s", columns=("id", "ID"))}
    assert value("ID", both) == Ref("ID")
    assert found("SELECT Id FROM s", both) == [("AMBIGUOUS_COLUMN", "Id")]


def test_an_unknown_column_of_a_closed_relation_is_reported_with_the_closest_name():
    (error,) = errors("SELECT nmae FROM s", CLOSED)
    assert (error.code, error.span.start, error.hint) == ("UNKNOWN_COLUMN", 7, "did you mean 'name'?")


def test_a_step_offers_the_columns_it_lists():
    text = "WITH t AS (SELECT a, b AS c FROM s) SELECT t.C AS v FROM t"
    assert columns(text) == {"v": Ref("c")}
    assert found(text.replace("t.C", "t.b")) == [("UNKNOWN_COLUMN", "t.b")]


def test_a_double_quoted_word_is_a_string_unless_a_column_has_that_name():
    assert value('"name"') == Literal("name")
    assert warned('SELECT "name" AS v FROM s') == [("STRING_IN_DOUBLE_QUOTES", '"name"')]
    assert value('"name"', CLOSED) == Ref("name")
    assert warned('SELECT "name" AS v FROM s', CLOSED) == []


def test_a_double_quoted_name_with_brackets_or_behind_a_dot_is_an_identifier():
    assert value('"[a][b]"') == field("[a][b]")
    assert value('s."b"') == field("b")
    assert value('r."b"') == field("r", "b")


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("PartitionId", "$partition"),
        ("EventEnqueuedUtcTime", "$arrival"),
        ("BlobLastModifiedUtcTime", "$arrival"),
    ],
)
def test_metadata_an_input_has_stand_before_a_payload_field_of_their_name(name: str, column: str):
    assert value(name) == value(f"s.{name}") == value(name, CLOSED) == Ref(column)
    others = {"s": InputInfo("s", metadata=frozenset(METADATA_COLUMNS) - {name.lower()})}
    assert value(name, others) == Call("coalesce", (field(name), Ref(column)))
    assert value(f"s.{name}", others) == value(name, others)
    listed = {"s": InputInfo("s", columns=(name,))}
    assert value(name, listed) == Ref(name)


def test_metadata_of_a_union_stand_before_a_field_if_they_do_in_all_its_parts():
    text = "WITH u AS (SELECT * FROM s UNION SELECT * FROM r) SELECT PartitionId AS p FROM u"
    inputs = {"s": InputInfo("s"), "r": InputInfo("r", metadata=metadata_in("$partition"))}
    assert columns(text, inputs) == {"p": Ref("$partition")}
    inputs["r"] = InputInfo("r", metadata=metadata_in("$arrival"))
    assert columns(text, inputs) == {"p": Call("coalesce", (field("PartitionId"), Ref("$partition")))}


def test_other_metadata_names_are_fields():
    assert value("BlobName") == field("BlobName")


def test_metadata_reach_through_stars_but_not_through_lists_or_groups():
    star = "WITH t AS (SELECT * FROM s WHERE a = 1) SELECT PartitionId AS p FROM t"
    assert columns(star) == {"p": Ref("$partition")}
    assert found(star.replace("SELECT *", "SELECT a")) == [("UNKNOWN_COLUMN", "PartitionId")]


def test_metadata_are_not_part_of_a_star():
    assert project("SELECT * FROM s", CLOSED).columns == ("Id", "name", "pos")


@pytest.mark.parametrize(
    ("path", "column"),
    [
        ("[EventHub].[EventEnqueuedUtcTime]", "$arrival"),
        ("[EventHub].[PartitionId]", "$partition"),
        ("IoTHub.EnqueuedTime", "$arrival"),
        ("BlobLastModifiedUtcTime", "$arrival"),
    ],
)
def test_known_metadata_properties_are_columns_of_the_engine(path: str, column: str):
    assert value(f"GetMetadataPropertyValue(s, '{path}')") == Ref(column)


def test_properties_only_a_recording_has_are_fields_of_it():
    assert value("GetMetadataPropertyValue(s, '[User].[x]')") == field("User", "x")
    assert value("GetMetadataPropertyValue(s, 'iothub.messageid')") == field("IoTHub", "MessageId")
    unknown = "SELECT GetMetadataPropertyValue(s, 'Partition') FROM s"
    assert found(unknown) == [("UNKNOWN_METADATA", "'Partition'")]


@pytest.mark.parametrize(
    "path", ["", "[User", "User]", "[User].", "EventHub.", "EventHub.x.y", "IoTHub.EventId", "User..x"]
)
def test_a_path_that_is_none_is_unknown(path: str):
    text = f"SELECT GetMetadataPropertyValue(s, '{path}') FROM s"
    assert found(text) == [("UNKNOWN_METADATA", f"'{path}'")]


def test_metadata_properties_belong_to_an_input_of_this_select():
    text = "SELECT GetMetadataPropertyValue(other, 'PartitionId') FROM s"
    assert found(text) == [("METADATA_ARGUMENTS", "other")]


def test_system_timestamp_is_the_timestamp_of_the_row():
    assert value("System.Timestamp()") == TIME
    assert value("System.Timestamp") == TIME


def test_any_name_is_an_input_when_the_inputs_are_not_known():
    assert plan("SELECT a FROM Clicks").inputs == ("Clicks",)


def test_one_input_has_one_spelling():
    job = plan("SELECT a INTO x FROM Clicks SELECT a INTO y FROM clicks")
    assert job.inputs == ("Clicks",)


def test_a_known_input_is_found_without_regard_to_case_and_keeps_its_own_spelling():
    assert scan("SELECT a FROM CLICKS", {"clicks": InputInfo("Clicks")}).input == "Clicks"


def test_an_unknown_input_is_reported_with_the_closest_name():
    (error,) = errors("SELECT a FROM Clikcs", {"Clicks": InputInfo("Clicks")})
    assert (error.code, error.hint) == ("UNKNOWN_INPUT", "did you mean 'Clicks'?")
    assert found("SELECT a FROM Clikcs", {"Clicks": InputInfo("Clicks")}) == [("UNKNOWN_INPUT", "Clikcs")]


def test_reference_data_cannot_be_read_as_a_stream():
    assert found("SELECT a FROM r", {"r": InputInfo("r", "reference")}) == [("REFERENCE_IN_FROM", "r")]


def test_steps_are_read_through_step_refs_without_regard_to_case():
    job = plan("WITH Slow AS (SELECT a FROM s) SELECT * FROM SLOW")
    (output,) = job.outputs
    assert output.node.child == StepRef("Slow", ("a",), False)
    assert [name for name, _ in job.steps] == ["Slow"]


def test_a_step_may_have_the_name_of_the_input_it_reads():
    job = plan("WITH s AS (SELECT a FROM s) SELECT * FROM s")
    (step,) = job.steps
    assert step[1].child == InputScan("s")


def test_a_step_cannot_read_a_later_step():
    text = "WITH a AS (SELECT x FROM b), b AS (SELECT x FROM s) SELECT x FROM a"
    assert found(text) == [("STEP_IS_LATER", "b")]


def test_two_steps_cannot_share_a_name():
    text = "WITH a AS (SELECT x FROM s), A AS (SELECT x FROM s) SELECT x FROM a"
    assert found(text) == [("DUPLICATE_STEP", "A")]


def test_a_derived_table_stands_inline():
    top = project("SELECT d.b FROM (SELECT a AS b FROM s) AS d")
    assert top.items[0].expr == Ref("b")
    assert top.child == project("SELECT a AS b FROM s")


def test_steps_nobody_reads_are_left_out_with_a_warning():
    text = "WITH a AS (SELECT x FROM s), b AS (SELECT x FROM t) SELECT x FROM b"
    job = plan(text)
    assert [name for name, _ in job.steps] == ["b"]
    assert job.inputs == ("t",)
    assert warned(text) == [("UNUSED_STEP", "a")]


def test_inputs_nobody_reads_give_a_warning():
    assert warned("SELECT a FROM s", {"s": InputInfo("s"), "t": InputInfo("t")}) == [("UNUSED_INPUT", "")]


def test_nothing_is_said_of_what_is_unused_when_the_query_has_errors():
    inputs = {"entry": InputInfo("entry"), "exit": InputInfo("exit")}
    assert found("SELECT a FROM entri", inputs) == [("UNKNOWN_INPUT", "entri")]


def written_to(text: str, outputs: list[str]) -> list[tuple[str, str]]:
    source = Source(text)
    return [(each.message, each.hint) for each in bind(parse(source), source, outputs=outputs).warnings]


def test_writing_to_an_output_the_job_lacks_gives_a_warning():
    assert written_to("SELECT a INTO alert FROM s", ["Alerts", "other"]) == [
        ("the job has no output 'alert'", "did you mean 'Alerts'?")
    ]
    assert written_to("SELECT a INTO x FROM s", ["alerts", "other"]) == [
        ("the job has no output 'x'", "it has alerts, other")
    ]
    assert written_to("SELECT a INTO ALERTS FROM s", ["alerts"]) == []
    ((message, _),) = written_to("SELECT a FROM s", ["alerts"])
    assert message == "the job has no output 'output', where the rows of a statement without INTO go"


def test_a_field_beside_listed_columns_is_looked_up_in_the_payload():
    text = "WITH t AS (SELECT a AS b, * FROM s) SELECT B AS one, c AS two FROM t"
    assert columns(text) == {"one": Ref("b"), "two": Path(PAYLOAD, ("c",))}
