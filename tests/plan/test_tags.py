"""The texts that fingerprints of state hash stay what they are, whatever the code is called."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from inspect import getmembers, isclass
from pathlib import Path

import pytest

import tideglass.operators.analytic.functions  # noqa: F401 - it tags a class too
from support.cases import case_paths, load
from tideglass.compile import compile_query
from tideglass.core.errors import Source
from tideglass.core.tags import TAGS, added_field, renamed_field, tag, tag_of, tagged_fields, written
from tideglass.job.start.manifest import identity_of
from tideglass.plan import calls, expressions, nodes, patterns, specs, topology, windows
from tideglass.project.settings import JobSettings

FIXTURES = Path(__file__).parents[1] / "fixtures"
#: Tag -> the names its fields are written under. A line that is here stays; new ones are added.
WRITTEN_FIELDS = json.loads((FIXTURES / "tags.json").read_text())
#: Case -> what a manifest says of its query, as the first version with tags and the last without wrote it.
IDENTITIES = json.loads((FIXTURES / "identities.json").read_text())


def written_fields() -> dict[str, list[str]]:
    return {
        name: [each.name for each in class_]
        if issubclass(class_, Enum)
        else [each.metadata.get("tag", each.name) for each in fields(class_) if each.repr]
        for class_, name in TAGS.items()
        if class_.__module__.startswith("tideglass.")
    }


def test_every_tag_writes_the_fields_it_always_wrote():
    assert written_fields() == WRITTEN_FIELDS, (
        "state of running jobs hangs on these names: keep a renamed field's with core.tags.renamed_field, "
        "make a new one with added_field, and add new tags and fields to tests/fixtures/tags.json"
    )


def test_everything_a_plan_is_made_of_has_a_tag():
    made_of = {
        class_
        for module in (calls, expressions, nodes, patterns, specs, topology, windows)
        for _, class_ in getmembers(module, isclass)
        if is_dataclass(class_) and class_.__module__ == module.__name__
    }
    assert len(made_of) > 40
    assert not {class_.__qualname__ for class_ in made_of - set(TAGS) - {windows.WindowKind}}


@pytest.mark.parametrize("name", IDENTITIES)
def test_what_a_manifest_says_of_a_query_stays(name, tmp_path):
    case = load(case_paths()[0].parents[1] / f"{name}.case")
    compiled = compile_query(Source(case.query), JobSettings(), key_groups=2, functions=case.functions)
    identity = identity_of(compiled, JobSettings(), {}, {}, tmp_path, finished_input=True)
    assert {
        "plan": identity.plan,
        "state": list(identity.state),
        "steps": {step: [each.own, each.whole] for step, each in identity.steps.items()},
    } == IDENTITIES[name]


def test_the_kept_identities_have_every_operator_with_state():
    kept = {load(case_paths()[0].parents[1] / f"{name}.case").query for name in IDENTITIES}
    topologies = [compile_query(Source(query), JobSettings(), key_groups=2).topology for query in kept]
    operators = {type(op) for each in topologies for op in each.ops}
    assert {topology.WindowOp, topology.JoinOp, topology.AnalyticOp, topology.PatternOp, topology.EmitOp} <= (
        operators
    )


def test_a_renamed_class_with_a_renamed_and_an_added_field_is_written_as_before():
    @dataclass(frozen=True)
    class Before:
        size: int
        name: str | None = None

    @tag("Before")
    @dataclass(frozen=True)
    class After:
        size_ticks: int = renamed_field("size")
        name: str | None = None
        offset_ticks: int = added_field(default=0)

    text = repr(Before(3, "a")).replace(Before.__qualname__, "Before")
    assert written(After(3, "a")) == text
    assert written(After(3, "a", 7)) == text[:-1] + ", offset_ticks=7)"
    assert [name for name, _, _ in tagged_fields(After(3))] == ["size_ticks", "name"]
    del TAGS[After]


def test_what_has_no_tag_is_refused():
    @dataclass(frozen=True)
    class Untagged:
        size: int

    with pytest.raises(TypeError, match="Untagged has no tag"):
        written((Untagged(1),))
    with pytest.raises(TypeError, match="list has no tag"):
        written([1])
    with pytest.raises(TypeError, match="Untagged has no tag"):
        tag_of(Untagged(1))


def test_no_two_classes_share_a_tag():
    with pytest.raises(ValueError, match="two classes have the tag 'JoinOp'"):
        tag("JoinOp")(type("Other", (), {}))
