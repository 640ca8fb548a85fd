"""The queries under examples/queries do what their files say, and the cookbook shows them as they are."""

from __future__ import annotations

import pytest

from oracle import run as run_by_oracle
from support.cases import Case, compare_outputs
from support.cookbook import CONSTRUCTS, DOMAINS, FOLDER, PAGE, page, recipes, showing
from tideglass.testing import run

RECIPES = recipes()


def named(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", RECIPES, ids=named)
def test_the_query_gives_the_rows_of_its_file(case: Case) -> None:
    assert case.expected
    actual = run(case.query, case.inputs, case.reference, case.settings, case.functions)
    assert compare_outputs(actual, case.expected) == []


@pytest.mark.parametrize("case", RECIPES, ids=named)
def test_the_oracle_agrees(case: Case) -> None:
    actual = run_by_oracle(case.query, case.inputs, case.reference, case.settings, case.functions)
    assert compare_outputs(actual, case.expected) == []


def test_every_domain_has_seven_queries_at_least() -> None:
    assert sorted(DOMAINS) == sorted(folder.name for folder in FOLDER.iterdir() if folder.is_dir())
    assert {domain: len(recipes(domain)) for domain in DOMAINS if len(recipes(domain)) < 7} == {}


def test_every_query_has_a_name_and_a_sentence_of_its_own() -> None:
    assert len({case.path.stem for case in RECIPES}) == len(RECIPES)
    assert len({case.sentence for case in RECIPES}) == len(RECIPES)


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_every_construct_of_the_page_is_shown_by_a_query(construct: str) -> None:
    assert showing(construct)


def test_the_page_is_in_step_with_the_folder() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: PYTHONPATH=tests python -m support.cookbook"
