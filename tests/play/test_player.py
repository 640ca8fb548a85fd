"""The process of the playground: what it may take, what it can reach, and how it is asked over HTTP."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from tideglass.page.application import Page, application
from tideglass.page.guard import Access
from tideglass.page.job_table import JobTable
from tideglass.page.playground_routes import PLAY_PATH
from tideglass.play.attempt import Attempt, Playground
from tideglass.play.player import MOST_WAITING, Player, TooManyAttempts
from tideglass.play.playgrounds import example
from tideglass.play.worker import outcome_of

ENDLESS = {
    "endless": "function main(x) { while (true) {} }",
    "reach": "function main(x) { return [typeof require, typeof process, typeof fetch].join(); }",
}


@pytest.fixture(scope="module")
def player() -> Iterator[Player]:
    os.environ["TIDEGLASS_TEST_SECRET"] = "secret"
    found = Player(Playground("test", Attempt("", ""), functions=ENDLESS), seconds=60)
    yield found
    found.close()
    del os.environ["TIDEGLASS_TEST_SECRET"]


@pytest.mark.long
def test_an_attempt_runs_in_a_process_that_has_no_secrets(player: Player):
    outcome = player.play(Attempt("SELECT UDF.reach(a) AS b INTO o FROM i", '{"a": 1}'))
    assert [row.values for row in outcome.rows] == [{"b": "undefined,undefined,undefined"}]
    process = player._process  # pyright: ignore[reportPrivateUsage]
    assert process is not None
    with open(f"/proc/{process.pid}/environ") as environment:
        assert "secret" not in environment.read()


@pytest.mark.long
def test_what_does_not_end_is_ended_and_the_next_attempt_runs(player: Player):
    player.play(Attempt("SELECT 1 AS x INTO o FROM i", '{"x": 1}'))
    player.seconds = 1.0
    outcome = player.play(Attempt("SELECT UDF.endless(a) AS b INTO o FROM i", '{"a": 1}'))
    assert [each.code for each in outcome.problems] == ["TOO_MUCH"]
    player.seconds = 60
    again = player.play(Attempt("SELECT a INTO o FROM i", '{"a": 1}'))
    assert [row.values for row in again.rows] == [{"a": "1"}]


def test_only_so_many_wait(player: Player):
    with player._lock:  # pyright: ignore[reportPrivateUsage]
        waiting = player._waiting  # pyright: ignore[reportPrivateUsage]
        for _ in range(MOST_WAITING):
            assert waiting.acquire(blocking=False)
        with pytest.raises(TooManyAttempts):
            player.play(Attempt("", ""))
        waiting.release(MOST_WAITING)


@pytest.fixture(scope="module")
def page() -> Iterator[TestClient]:
    found = Player(example(), seconds=60)
    access = Access(posts=frozenset((PLAY_PATH,)))
    yield TestClient(application(Page(JobTable(), player=found), access), base_url="http://127.0.0.1:8470")
    found.close()


@pytest.mark.long
def test_the_page_plays_what_it_began_with(page: TestClient):
    start = page.get("/api/playground").json()
    assert start["name"] == "example"
    outcome = page.post("/api/play", json=start["attempt"]).json()
    assert (outcome["problems"], len(outcome["events"]), len(outcome["windows"])) == ([], 12, 3)
    first = outcome["windows"][0]
    assert first["end_ms"] - first["start_ms"] == 300_000
    assert "_ticks" not in json.dumps(outcome)
    assert page.get("/api/jobs").json()["play"]


@pytest.mark.parametrize(
    ("body", "type_", "status"),
    [
        ("{}", "application/json", 400),
        ("[", "application/json", 400),
        ("[" * 100_000, "application/json", 400),
        ('{"query": 1, "events": ""}', "application/json", 400),
        ("x" * 2_000_000, "application/json", 413),
        ("{}", "text/plain", 415),
        ("{}", "application/x-www-form-urlencoded", 415),
    ],
)
def test_a_request_that_is_no_attempt_is_refused(page: TestClient, body: str, type_: str, status: int):
    response = page.post("/api/play", content=body, headers={"content-type": type_})
    assert response.status_code == status
    assert response.json()["error"]["code"]


def test_another_site_cannot_play(page: TestClient):
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        assert page.post("/api/play", json={}, headers=headers).status_code == 403
    own = {"origin": "http://127.0.0.1:8470", "sec-fetch-site": "same-origin"}
    assert page.post("/api/play", json={}, headers=own).status_code == 400


def test_post_is_taken_in_play_mode_and_at_that_address_only(page: TestClient):
    assert page.get("/api/play").headers["allow"] == "POST"
    assert page.post("/api/jobs", json={}).status_code == 405
    assert page.put("/api/play", json={}).status_code == 405
    plain = TestClient(application(Page(JobTable()), Access()), base_url="http://127.0.0.1:8470")
    assert plain.post("/api/play", json={}).status_code == 405
    assert plain.get("/api/playground").status_code == 404


def test_a_fault_of_the_engine_is_a_problem_that_is_named(monkeypatch: pytest.MonkeyPatch):
    def fails(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("tideglass.play.worker.play", fails)
    attempt = Attempt("SELECT a INTO o FROM i", "{}")
    (problem,) = outcome_of(Playground("test", attempt), attempt).problems
    assert (problem.code, problem.message) == ("FAULT", "the engine failed: RuntimeError: broken")


@pytest.mark.long
def test_columns_keep_their_order_on_the_way(page: TestClient):
    attempt = {
        "query": "SELECT z, a, m INTO o FROM devices",
        "events": '{"a": 1, "m": 2, "z": 9007199254740993}',
    }
    (row,) = page.post("/api/play", json=attempt).json()["rows"]
    assert row["row"] == [["z", "9007199254740993"], ["a", "1"], ["m", "2"]]
