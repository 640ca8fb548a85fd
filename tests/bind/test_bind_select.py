"""The SELECT list, UNION, INTO and outputs."""

import pytest

from support.binding import CLOSED, PAYLOAD, bound, columns, field, found, named, node, plan, project, warned
from tideglass.bind.catalog import InputInfo
from tideglass.plan.expressions import Call, Case, Literal, Path, Ref
from tideglass.plan.nodes import InputScan, Named, Projection, StepRef, Union


def test_a_star_over_an_open_relation_spreads_the_payload():
    assert project("SELECT * FROM s") == Projection(InputScan("s"), (), PAYLOAD)


def test_a_star_over_a_closed_relation_lists_its_columns():
    assert project("SELECT * FROM s", CLOSED).items == named(Id=Ref("Id"), name=Ref("name"), pos=Ref("pos"))
    assert project("SELECT * FROM s", CLOSED).spread is None


def test_a_star_over_listed_columns_and_a_payload_takes_both():
    top = project("WITH t AS (SELECT 1 AS a, * FROM s) SELECT * FROM t")
    assert top == Projection(StepRef("t", ("a",), True), named(a=Ref("a")), PAYLOAD)


def test_a_column_left_of_the_star_replaces_the_stars_column():
    top = project("SELECT 0 AS name, * FROM s", CLOSED)
    assert top.items == named(name=Literal(0), Id=Ref("Id"), pos=Ref("pos"))
    assert warned("SELECT 0 AS name, * FROM s", CLOSED) == []


def test_a_column_right_of_the_star_is_ignored_when_the_star_has_it():
    assert project("SELECT *, 0 AS name FROM s", CLOSED).columns == ("Id", "name", "pos")
    assert project("SELECT *, 0 AS name FROM s", CLOSED).items[1].expr == Ref("name")
    assert warned("SELECT *, 0 AS name FROM s", CLOSED) == [("COLUMN_IGNORED", "0 AS name")]


def test_a_column_right_of_an_open_star_yields_to_a_field_of_its_name():
    has = Call("record.has", (PAYLOAD, Literal("c")))
    assert columns("SELECT *, 0 AS c FROM s") == {"c": Case(((has, field("c")),), Literal(0))}


def test_a_field_named_again_beside_the_star_needs_no_choice():
    assert columns("SELECT *, c FROM s") == {"c": field("c")}


def test_the_fields_of_a_record_are_spread():
    assert project("SELECT a, r.q.* FROM s") == Projection(
        InputScan("s"), named(a=field("a")), field("r", "q")
    )
    assert project("SELECT pos.* FROM s", CLOSED).spread == Ref("pos")


def test_a_column_yields_to_the_field_of_a_nested_record_to_its_left():
    has = Call("record.has", (field("r", "q"), Literal("b")))
    assert columns("SELECT r.q.*, 0 AS b FROM s") == {"b": Case(((has, field("r", "q", "b")),), Literal(0))}


def test_several_spreads_merge_and_the_first_wins():
    assert project("SELECT r.*, * FROM s").spread == Call("record.merge", (field("r"), PAYLOAD))


def test_a_listed_column_yields_to_a_record_spread_to_its_left():
    has = Call("record.has", (Ref("pos"), Literal("Id")))
    items = project("SELECT pos.*, Id FROM s", CLOSED).items
    assert items == named(Id=Case(((has, Path(Ref("pos"), ("Id",))),), Ref("Id")))


def test_the_star_of_a_source_is_the_star():
    assert project("SELECT x.* FROM s AS x") == project("SELECT * FROM s")


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("r.speed", "speed"),
        ("System.Timestamp()", "timestamp"),
        ("UPPER(a)", "upper"),
        ("UDF.Distance(a)", "distance"),
        ("a + 1", "column1"),
        ("'x'", "column1"),
        ("CAST(a AS bigint)", "cast"),
    ],
)
def test_unaliased_items_have_default_names(expression: str, name: str):
    assert project(f"SELECT {expression} FROM s").columns == (name,)


def test_default_names_that_collide_are_numbered():
    assert project("SELECT UPPER(a), UPPER(b), UPPER(c) FROM s").columns == ("upper", "upper2", "upper3")
    assert project("SELECT UPPER(a), b AS upper FROM s").columns == ("upper2", "upper")


def test_two_columns_cannot_have_the_same_alias():
    text = "SELECT a AS x, b AS x FROM s"
    assert found(text) == [("DUPLICATE_COLUMN", "x")]


def test_a_union_of_closed_queries_has_the_columns_of_the_first():
    top = node("SELECT a, b FROM s UNION SELECT b AS a, a AS b FROM t")
    assert isinstance(top, Union)
    assert top.columns == ("a", "b")
    assert [child.columns for child in top.children] == [("a", "b"), ("a", "b")]


def test_names_of_a_union_that_differ_by_case_take_the_first_spelling():
    top = node("SELECT Id FROM s UNION SELECT id FROM t")
    assert isinstance(top, Union)
    assert top.children[1] == Projection(
        Projection(InputScan("t"), named(id=field("id"))), named(Id=Ref("id"))
    )


@pytest.mark.parametrize("second", ["SELECT a FROM t", "SELECT b, a FROM t", "SELECT a, c FROM t"])
def test_the_queries_of_a_union_must_have_the_same_columns(second: str):
    assert found(f"SELECT a, b FROM s UNION {second}") == [("UNION_COLUMNS", second)]


def test_a_listed_column_is_looked_up_in_the_open_side_of_a_union():
    top = node("SELECT a FROM s UNION SELECT * FROM t")
    assert isinstance(top, Union)
    star = Projection(InputScan("t"), (), PAYLOAD)
    assert top.children[1] == Projection(star, named(a=field("a")), PAYLOAD)


def test_a_union_of_stars_stays_as_it_is():
    top = node("SELECT * FROM s UNION SELECT * FROM t")
    assert top == Union((Projection(InputScan("s"), (), PAYLOAD), Projection(InputScan("t"), (), PAYLOAD)))


def test_into_of_the_first_select_is_the_output_of_the_union():
    (output,) = plan("SELECT a INTO o FROM s UNION SELECT a FROM t").outputs
    assert output.name == "o"
    text = "SELECT a FROM s UNION SELECT a INTO o FROM t"
    assert found(text) == [("INTO_HERE", "o")]


def test_a_statement_without_into_writes_to_output():
    assert [output.name for output in plan("SELECT a FROM s").outputs] == ["output"]


def test_into_is_not_allowed_inside_with():
    assert found("WITH t AS (SELECT a INTO o FROM s) SELECT a FROM t") == [("INTO_HERE", "o")]


def test_statements_that_write_to_one_output_name_it_like_the_first():
    job = plan("SELECT a INTO o FROM s SELECT b INTO O FROM s")
    assert [output.name for output in job.outputs] == ["o", "o"]


def test_several_statements_keep_their_order():
    job = plan("SELECT a INTO two FROM s; SELECT b INTO one FROM t")
    assert [output.name for output in job.outputs] == ["two", "one"]
    assert job.inputs == ("s", "t")


def test_the_level_is_part_of_the_plan():
    assert plan("SELECT a FROM s", level="1.1").compatibility_level == "1.1"
    with pytest.raises(ValueError, match="1\\.3"):
        bound("SELECT a FROM s", level="1.3")


def test_create_table_gives_the_types_of_an_inputs_payload():
    text = "CREATE TABLE S (a bigint, b nvarchar(max), c float); SELECT a FROM s"
    (step,) = [output.node.child for output in plan(text).outputs]
    assert [(name, type_.value) for name, type_ in step.payload_types] == [
        ("a", "bigint"),
        ("b", "nvarchar(max)"),
        ("c", "float"),
    ]
    assert step.open


def test_a_table_of_no_input_gives_a_warning():
    assert warned("CREATE TABLE clikcs (a bigint); SELECT a FROM clicks") == [("UNKNOWN_TABLE", "clikcs")]


def test_an_input_has_one_table():
    text = "CREATE TABLE s (a bigint); CREATE TABLE S (a float); SELECT a FROM s"
    assert found(text) == [("DUPLICATE_TABLE", "S")]


def test_a_where_clause_is_a_filter_below_the_list():
    top = project("SELECT a FROM s WHERE b = 1")
    assert top.child.condition == Call("=", (field("b"), Literal(1)))
    assert top.child.child == InputScan("s")


def test_having_without_groups_is_a_filter_that_knows_the_aliases():
    top = project("SELECT a + 1 AS c FROM s WHERE b = 1 HAVING c > 2")
    assert top.child.condition == Call(">", (Call("+", (field("a"), Literal(1))), Literal(2)))
    assert top.items == (Named("c", Call("+", (field("a"), Literal(1)))),)


def test_an_alias_is_not_visible_in_where():
    assert warned("SELECT a + 1 AS c FROM s WHERE c > 2") == [("ALIAS_NOT_VISIBLE", "c")]
    assert warned("SELECT CAST(c AS float) AS c FROM s WHERE c > 2") == []
    assert found("SELECT Id + 1 AS c FROM s WHERE c > 2", CLOSED) == [("UNKNOWN_COLUMN", "c")]


def test_the_inside_of_a_join_is_still_checked():
    text = "SELECT t.nope FROM s JOIN t ON GETDATE() = t.a"
    inputs = {"s": InputInfo("s"), "t": InputInfo("t", "reference", columns=("a",))}
    assert [code for code, _ in found(text, inputs)] == [
        "UNKNOWN_COLUMN",
        "UNKNOWN_FUNCTION",
    ]


def test_a_star_cannot_be_used_when_streams_are_joined():
    codes = [code for code, _ in found("SELECT * FROM s JOIN t ON s.a = t.a")]
    assert codes == ["STAR_WITH_JOIN", "JOIN_NOT_BOUNDED"]
