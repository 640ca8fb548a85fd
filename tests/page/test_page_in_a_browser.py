"""The page in a real browser: what is drawn is what the job has, for a live, a dead and a replaying run.

With TIDEGLASS_PICTURES=FOLDER the pictures of the documents are written there.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser

from support.browser import chromium, opened
from support.job_in_process import Folder, RunInProcess
from support.observed_jobs import Scene, dead_job, replaying_job, running_job
from support.pictures import keep
from support.shown_jobs import clock_at, served, write_query
from support.times import at
from tideglass.job.report.history import HistoryWriter, sample_of
from tideglass.job.report.query_outline import outline_of, write_outline
from tideglass.job.report.status import InputStatus, Status, StepStatus, read_status, write_status

pytestmark = pytest.mark.long

#: A fixed moment, so that all values and pictures are the same each time: 2026-03-01T12:01:10Z.
NOW_MS = 1_772_366_470_000
#: Width, height, and the part a picture shows.
SIZES = {
    "telephone": (390, 844, "body"),
    "tablet": (768, 1024, "#steps"),
    "laptop": (1024, 768, "#delays"),
    "desktop": (1280, 900, "body"),
}
#: Pictures of the whole page; the others are of what one sees first.
WHOLE = {("desktop", "light"), ("telephone", "dark")}
#: The fields every status has; what is left out is unknown.
REQUIRED = ("job", "run", "state", "since", "updated", "pid", "host", "generation", "mode", "cause")
IDLE = Scene(idle_partition=3)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(autouse=True)
def now() -> Iterator[None]:
    with clock_at(NOW_MS):
        yield


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_job(tmp_path_factory.mktemp("live") / "toll", IDLE, NOW_MS) as directory:
        write_query(directory)
        with served(directory.path) as address:
            yield address


def answer(address: str, name: str) -> Any:
    job = json.load(urllib.request.urlopen(f"{address}api/jobs"))["jobs"][0]["name"]
    return json.load(urllib.request.urlopen(f"{address}api/job/{job}/{name}"))


def clock(ms: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(ms // 1000))


def spaced(number: int) -> str:
    return f"{number:,}".replace(",", "\u202f")


def test_numbers_of_a_live_run_are_those_of_its_status(browser: Browser, live: str):
    status = answer(live, "status")
    with opened(browser, live) as tab:
        assert tab.text("h1") == "tollbooth"
        assert tab.text(".state") == "Running"
        tiles = tab.facts(".tiles")
        watermark = min(each["watermark_ms"] for each in status["inputs"])
        assert tiles["watermark"].endswith(clock(watermark))
        assert tiles["watermark delay"] == f"{status['watermark_delay_seconds']:.0f} s"
        assert tiles["events"] == spaced(status["events"])
        assert tiles["rows"] == spaced(sum(status["rows"].values()))
        assert tiles["backlog"] == spaced(sum(status["backlog"].values()))
        partitions = {row[0]: row for row in tab.rows("#inputs > .scroll")}
        assert set(partitions) == {each["partition"] for each in status["inputs"]}
        for each in status["inputs"]:
            assert partitions[each["partition"]][1].endswith(clock(each["watermark_ms"]))
            assert partitions[each["partition"]][7] == spaced(each["events"])
            assert partitions[each["partition"]][4] == each["held_by"]
        assert tab.rows("#inputs > .scroll")[0][0] == "3", "the idle partition is the slowest"
        outputs = {row[0]: row for row in tab.rows("#outputs table")}
        assert {name: row[3] for name, row in outputs.items()} == {
            each["output"]: spaced(each["rows"]) for each in status["outputs"]
        }
        batches = tab.page.locator("#batches svg g").count()
        assert batches == len(status["recent_batches"])
        assert "no JSON" in tab.text("#errors .errors")
        assert tab.facts("#errors")["refused"] == str(status["counters"]["DeserializationError"])


def test_the_diagram_has_every_step_with_its_watermarks_and_rows(browser: Browser, live: str):
    status = answer(live, "status")
    steps = {each["operator"]: each for each in status["steps"]}
    with opened(browser, live) as tab:
        nodes = tab.page.locator(".node")
        assert set(nodes.evaluate_all("all => all.map(each => each.dataset.node)")) == {
            "input:toll",
            "step:perMinute",
            "output:counts",
            "output:heavy",
        }
        assert tab.page.locator(".holder").get_attribute("data-node") == "input:toll"
        tab.page.check("input[value=physical]")
        assert nodes.count() == len(steps)
        for operator, step in steps.items():
            label = tab.page.locator(f'[data-node="operator:{operator}"]').get_attribute("aria-label") or ""
            assert clock(step["output_watermark_ms"]) in label
            assert f"{spaced(step['rows_in'])} rows in, {spaced(step['rows_out'])} out" in label
        assert tab.page.locator(".link").count() == sum(len(each["sources"]) for each in steps.values())
        tab.page.locator('[data-node="operator:5"]').click()
        held = tab.rows("#node-details table")
        by_input, windows = steps[5]["holders"]
        assert [row[0] for row in held] == [by_input["kind"], windows["kind"]]
        assert held[1][-1] == str(windows["rows"])
        tab.page.locator("#steps details summary").click()
        groups = tab.rows("#steps details table")
        assert [row[3] for row in groups] == [spaced(each["rows_in"]) for each in status["ranges"]]


def test_a_step_leads_to_its_text_in_the_query(browser: Browser, live: str):
    query = answer(live, "query")
    places = {f"{each['kind']}:{each['name']}": each for each in query["steps"]}
    with opened(browser, live) as tab:
        for key in ("step:perMinute", "output:counts", "output:heavy"):
            tab.page.locator(f'[data-node="{key}"]').click()
            lines = query["text"].split("\n")[places[key]["line"] - 1 : places[key]["end_line"]]
            assert tab.texts("#query .marked") == [" ".join(line.split()) for line in lines]


def test_the_picture_draws_every_sample_of_the_history(browser: Browser, live: str):
    samples = [each for each in answer(live, "history")["samples"] if each["run"] == 2]
    with opened(browser, live) as tab:
        drawn = tab.check("drawn")
        assert drawn["x"] == [each["at_ms"] / 1000 for each in samples]
        assert drawn["near"]
        series = drawn["series"]
        assert series["ideal"] == drawn["x"]
        assert series["watermark"] == [each["inputs"][0]["watermarks_ms"][0] / 1000 for each in samples]
        arrivals = [each["inputs"][0]["last_arrival_ms"] / 1000 for each in samples]
        assert series["newest arrival"] == arrivals
        assert series["late limit"] == [each - 20 for each in arrivals]
        assert series["early limit"] == [each + 300 for each in arrivals]
        for place, name in enumerate("0123"):
            assert series[f"partition {name}"] == [each["partitions"][place][3] / 1000 for each in samples]
        watermark, arrival = samples[-1]["inputs"][0]["watermarks_ms"][0], arrivals[-1] * 1000
        assert f"watermark {clock(watermark)}" in tab.text("#picture-readout")
        assert f"newest arrival {clock(arrival)}" in tab.text("#picture-readout")
        assert tab.page.locator("#picture canvas").count() == 2


def test_windows_are_closed_closing_and_open_with_their_rows(browser: Browser, live: str):
    status, query = answer(live, "status"), answer(live, "query")
    (window,) = query["windows"]
    step = next(each for each in status["steps"] if each["operator"] == window["operator"])
    with opened(browser, live) as tab:
        tab.page.locator("#windows summary").click()
        rows = tab.rows("#windows table")
        due = step["holders"][-1]["due_ms"]
        ends = [due + (place - 5) * 60_000 for place in range(9)]
        assert [row[0][-8:] for row in rows] == [clock(each) for each in ends]
        assert [row[1] for row in rows] == ["closed"] * 5 + ["closing", "open", "coming", "coming"]
        assert [row[2] for row in rows[:6]] == ["12"] * 5 + ["24"]


def test_the_page_follows_a_run_and_nothing_jumps(browser: Browser, tmp_path: Path):
    with running_job(tmp_path / "toll", IDLE, NOW_MS) as directory:
        write_query(directory)
        history = HistoryWriter(directory)
        with served(directory.path) as address, opened(browser, address) as tab:
            tab.shows(".connection", "live")
            before = tab.check("tops")
            for later in (2, 4, 6):
                status = IDLE.status(NOW_MS + later * 1000, IDLE.seconds + later)
                history.add(sample_of(status, NOW_MS + later * 1000))
                write_status(directory, status)
                shown = spaced(status.events)
                tab.shows(".tiles", shown)
            tab.shows("#picture-readout", clock(NOW_MS + 6000))
            assert tab.check("tops") == before
            assert len(tab.measures()) >= 4


def test_a_dead_run_is_shown_as_it_was_with_its_error(browser: Browser, tmp_path: Path):
    directory = dead_job(tmp_path / "toll", IDLE, NOW_MS)
    write_query(directory)
    with served(directory.path) as address:
        status = answer(address, "status")
        assert not status["alive"]
        with opened(browser, address) as tab:
            assert tab.text(".state") == "Failed"
            tab.shows(".connection", "not running")
            assert status["error"] in tab.text("#errors")
            found = [each for each in answer(address, "why")["findings"] if each["severity"] == "problem"]
            assert any("killed" in each["text"] for each in found)
            for each in found[:3]:
                tab.shows("#why", each["text"])
                tab.shows("#why", each["remedy"])
            assert tab.facts(".tiles")["events"] == spaced(status["events"])
            assert tab.rows("#recovery table")[0][1] == "killed"
            assert "No run is under way" in tab.text("#batches")
            assert tab.page.locator("#picture canvas").count() == 2
            keep(tab, "page-dead")


def test_a_replay_shows_how_far_it_is_and_when_it_is_done(browser: Browser, tmp_path: Path):
    with replaying_job(tmp_path / "toll", Scene(), NOW_MS) as directory:
        write_query(directory)
        with served(directory.path) as address:
            now = answer(address, "status")["catching_up"]
            with opened(browser, address, reduced_motion="reduce") as tab:
                assert tab.page.locator("progress").get_attribute("value") == str(now["share"])
                facts = tab.facts("#recovery")
                assert facts["read"] == f"{now['share'] * 100:.0f} %"
                assert facts["events"] == f"{spaced(now['events'])} of about {spaced(now['events_expected'])}"
                assert facts["left"] == f"about {now['seconds_left']:.1f} s"
                assert now["cause"] in tab.text("#recovery .caption")
                assert tab.rows("#outputs table")[0][2] == "not called yet"
                tab.page.locator("#errors").evaluate("each => each.scrollIntoView()")
                keep(tab, "page-replay")


def test_what_is_not_there_is_no_data(browser: Browser, tmp_path: Path):
    with running_job(tmp_path / "toll", IDLE, NOW_MS) as directory:
        status = read_status(directory)
        assert status is not None
        silent = Status(*(getattr(status, name) for name in REQUIRED))
        reader = InputStatus("toll", "0", 0, None, None)
        unknown = [StepStatus(each.operator, each.level, each.kind, each.step) for each in status.steps]
        directory.history.unlink()
        for shown in (silent, replace(silent, inputs=(reader,), steps=tuple(unknown))):
            write_status(directory, shown)
            with served(directory.path) as address, opened(browser, address, expected=("/query",)) as tab:
                text = tab.page.locator("body").inner_text()
                for word in ("NaN", "undefined", "null", "Infinity", "[object", "Invalid"):
                    assert word not in text
                assert "no data" in text
                assert tab.facts(".tiles")["watermark delay"] == "no data"


TEXTS: dict[str, dict[float | None, str]] = {
    "duration": {
        None: "no data",
        float("nan"): "no data",
        0: "0 s",
        0.004: "4 ms",
        5: "5 s",
        7.26: "7.3 s",
        -61: "−61 s",
        120: "2 min",
        3599.6: "1 h",
        3725: "1 h 2 min",
        86_400 * 1.5: "1 d 12 h",
        86_400 * 800: "2 y 70 d",
    },
    "count": {None: "no data", float("inf"): "no data", 0: "0", 1234: "1\u202f234", 12_345_678: "12.3 M"},
    "rate": {None: "no data", 0: "0/s", 2.25: "2.3/s", 1500: "1\u202f500/s", 0.01: "36/h"},
    "bytes": {None: "no data", 999: "999 B", 4_300_000_000: "4.3 GB"},
    "percent": {None: "no data", 0.333: "33 %"},
}


def test_numbers_are_short_texts_and_what_is_no_number_is_no_data(browser: Browser, live: str):
    with opened(browser, live) as tab:
        for name, examples in TEXTS.items():
            assert tab.check("formatted", name, list(examples)) == list(examples.values())


def test_an_index_leads_to_every_job_of_a_folder(browser: Browser, tmp_path: Path):
    dead_job(tmp_path / "dead", IDLE, NOW_MS)
    with running_job(tmp_path / "running", IDLE, NOW_MS) as directory:
        write_query(directory)
        with served(tmp_path, many=True) as address, opened(browser, address) as tab:
            tab.page.wait_for_selector(".jobs")
            assert [row[:2] for row in tab.rows(".jobs")] == [["dead", "Failed"], ["running", "Running"]]
            tab.page.get_by_role("link", name="running").click()
            tab.page.wait_for_selector(".tiles")
            assert tab.text(".state") == "Running"
            tab.page.get_by_role("link", name="all jobs").click()
            tab.page.wait_for_selector(".jobs")


def test_the_page_says_when_it_is_not_connected_and_connects_again(browser: Browser, tmp_path: Path):
    with running_job(tmp_path / "toll", IDLE, NOW_MS) as directory:
        write_query(directory)
        lost = ("ERR_", "Failed to load")
        with served(directory.path) as address:
            port = int(address.rstrip("/").rpartition(":")[2])
            tab_context = opened(browser, address, expected=lost)
            tab = tab_context.__enter__()
            tab.shows(".connection", "live")
        tab.shows(".connection", "not connected")
        assert tab.facts(".tiles")["events"] != "no data", "what was there stays"
        with served(directory.path, port=port):
            tab.shows(".connection", "live")
            tab_context.__exit__(None, None, None)


def test_a_job_directory_that_is_gone_leaves_the_last_that_was_known(browser: Browser, tmp_path: Path):
    with running_job(tmp_path / "toll", IDLE, NOW_MS) as directory:
        write_query(directory)
        with served(directory.path) as address, opened(browser, address) as tab:
            tab.shows(".connection", "live")
            directory.status.local.rename(tmp_path / "moved")
            tab.shows(".refused", "the job directory is no more, or holds no status")
            assert tab.facts(".tiles")["events"] == spaced(240_000)
            (tmp_path / "moved").rename(directory.status.local)
            write_status(directory, IDLE.status(NOW_MS + 2000, IDLE.seconds + 2))
            tab.shows(".tiles", spaced(240_800))
            assert tab.page.locator("main > .refused").count() == 0


def test_a_hidden_page_rests(browser: Browser, live: str):
    with opened(browser, live) as tab:
        tab.shows(".connection", "live")
        asked: list[str] = []
        tab.page.on("request", lambda request: asked.append(request.url))
        tab.check("hide", True)
        refreshes = len(tab.measures())
        tab.page.wait_for_timeout(1200)
        assert (asked, len(tab.measures())) == ([], refreshes)
        tab.check("hide", False)
        tab.shows(".connection", "live")
        assert any(url.endswith("/events") for url in asked)


def test_everything_can_be_reached_and_used_with_the_keyboard(browser: Browser, live: str):
    with opened(browser, live) as tab:
        page = tab.page
        page.keyboard.press("Tab")
        assert tab.check("focused") == "Skip to the job"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "content"
        seen: list[str] = []
        for _ in range(60):
            page.keyboard.press("Tab")
            name = tab.check("focused")
            if name == "body":
                break
            seen.append(name)
            assert tab.check("focusShows"), f"focus does not show on {name}"
        for wanted in (
            "run",
            "input:toll",
            "step:perMinute",
            "output:counts",
            "output:heavy",
            "logical",
            "Query",
            "name",
        ):
            assert wanted in seen, seen
        page.locator('[data-node="step:perMinute"]').focus()
        page.keyboard.press("Enter")
        assert len(tab.texts("#query .marked")) == 5
        assert page.locator('[data-node="step:perMinute"]').get_attribute("aria-pressed") == "true"
        page.keyboard.press(" ")
        assert tab.texts("#query .marked") == []
        page.locator("#picture-chart").focus()
        page.keyboard.press("Home")
        tab.shows("#picture-readout", clock(NOW_MS - 600_000))
        page.locator(".heat-map").focus()
        page.keyboard.press("ArrowDown")
        tab.shows("#delays-readout", "partition")
        assert tab.check("unnamed") == []


@pytest.mark.parametrize("width", [390, 1280])
def test_every_control_is_reached_by_tab_and_used_by_keys(browser: Browser, tmp_path: Path, width: int):
    """Of a job with more partitions than are listed, and with whatever can be unfolded unfolded by Enter."""
    scene = Scene(partitions=100, key_groups=4, idle_partition=99)
    with running_job(tmp_path / "toll", scene, NOW_MS) as directory:
        write_query(directory, 4)
        with (
            served(directory.path) as address,
            opened(browser, address, viewport={"width": width, "height": 900}) as tab,
        ):
            tab.shows(".connection", "live")
            page = tab.page
            page.locator('[data-node="step:perMinute"]').focus()
            page.keyboard.press("Enter")
            folded = page.locator("summary")
            for place in range(folded.count()):
                folded.nth(place).focus()
                page.keyboard.press("Enter")
                assert folded.nth(place).evaluate("each => each.parentElement.open")
            assert tab.walk() > 25
            assert tab.check("unreached") == []
            for group in page.evaluate(
                "[...new Set([...document.querySelectorAll('[type=radio]')].map(each => each.name))]"
            ):
                chosen = page.locator(f"input[name={group}]:checked")
                before = chosen.input_value()
                chosen.focus()
                page.keyboard.press("ArrowRight")
                assert chosen.input_value() != before, group
                chosen.focus()
                page.keyboard.press("ArrowLeft")
                assert chosen.input_value() == before, group
            for button in page.locator("button").all():
                was = button.get_attribute("aria-expanded")
                button.focus()
                page.keyboard.press("Enter")
                assert button.get_attribute("aria-expanded") != was
            link = page.locator("nav a").last
            link.focus()
            page.keyboard.press("Enter")
            assert page.url.endswith(link.get_attribute("href") or "no address")


STAMPED = """WITH tens AS (
    SELECT device, COUNT(*) AS n FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 10)
)
SELECT COUNT(*) AS n INTO minutes FROM tens GROUP BY TumblingWindow(minute, 1)
"""


def test_a_step_that_has_chosen_the_time_of_its_results_says_so(browser: Browser, tmp_path: Path):
    settings = {"OutputTimestamps": {"tens": "first element"}}
    folder = Folder(tmp_path / "job", STAMPED, late_seconds=5, settings=settings)
    folder.put(0, [{"device": "a", "t": at(n), "arrived": at(n)} for n in range(30)])
    job = folder.job()
    with RunInProcess(job) as run, served(folder.directory.path) as address:
        write_outline(run.directory, outline_of(job))
        run.batch()
        run.report()
        with opened(browser, address) as tab:
            for node, stamp in (("step:tens", "first element"), ("output:minutes", None)):
                tab.page.locator(f'[data-node="{node}"]').click()
                assert tab.facts("#node-details").get("time of its results") == stamp
            assert "results stamped with the first element" in tab.text("#windows h3")
            assert "stamped" not in tab.texts("#windows h3")[1]


@pytest.mark.parametrize("size", SIZES)
def test_it_fits_every_size_in_both_themes(browser: Browser, live: str, size: str):
    width, height, shown = SIZES[size]
    options: dict[str, Any] = {"viewport": {"width": width, "height": height}}
    with opened(browser, live, reduced_motion="reduce", **options) as tab:
        tab.page.locator('[data-node="step:perMinute"]').click()
        tab.shows("#why", "Healthy")
        themes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
        for theme in themes:
            tab.page.emulate_media(color_scheme=theme)
            tab.page.mouse.move(0, 0)
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
            assert tab.check("beyond") == 0
            assert tab.check("faint") == []
            assert tab.check("clipped") == []
            assert tab.check("overlapping") == []
            assert tab.page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
            tab.page.locator(shown).evaluate("each => each.scrollIntoView()")
            keep(tab, f"page-{size}-{theme}", whole=(size, theme) in WHOLE)


def test_a_refresh_with_512_partitions_takes_less_than_100_ms(browser: Browser, tmp_path: Path):
    scene = Scene(partitions=512, key_groups=64, idle_partition=511, seconds=60)
    with running_job(tmp_path / "toll", scene, NOW_MS) as directory:
        write_query(directory, 64)
        with served(directory.path) as address, opened(browser, address) as tab:
            tab.shows(".connection", "live")
            for later in range(1, 9):
                status = scene.status(NOW_MS + later * 1000, scene.seconds + later)
                write_status(directory, status)
                tab.shows(".tiles", spaced(status.events))
            times = sorted(tab.measures()[1:])
            assert len(times) >= 8
            median = times[len(times) // 2]
            print(f"512 partitions: median {median:.1f} ms, longest {times[-1]:.1f} ms of {len(times)}")
            assert median < 100
            tab.page.locator("#inputs button").click()
            assert len(tab.rows("#inputs > .scroll")) >= 512


def test_the_map_of_many_partitions_shows_what_the_history_holds_of_them(browser: Browser, tmp_path: Path):
    scene = Scene(partitions=100, key_groups=4, idle_partition=99)
    with running_job(tmp_path / "toll", scene, NOW_MS) as directory:
        write_query(directory, 4)
        with (
            served(directory.path) as address,
            opened(browser, address, viewport={"width": 1280, "height": 900}) as tab,
        ):
            tab.shows(".connection", "live")
            samples = [each for each in answer(address, "history")["samples"] if each["run"] == 2]
            assert all(each["partitions"] == [] for each in samples), "the history has the spread only"
            assert tab.texts(".heat-names li") == [
                "slowest", "slower quarter", "median", "faster quarter", "fastest",
            ]  # fmt: skip
            assert tab.texts(".heat-times span")[0] == clock(samples[0]["at_ms"])
            assert "more than 64 partitions" in tab.text("#delays .note")
            page = tab.page
            page.locator(".heat-map").focus()
            for place, name in ((0, "slowest"), (2, "median"), (4, "fastest")):
                page.keyboard.press("ArrowDown")
                if place:
                    page.keyboard.press("ArrowDown")
                newest = samples[-1]["inputs"][0]
                behind = (newest["last_arrival_ms"] - newest["watermarks_ms"][place]) / 1000
                tab.shows("#delays-readout", f"the {name} of 100 partitions, {clock(samples[-1]['at_ms'])}")
                (written,) = tab.check("formatted", "duration", [max(0, behind)])
                assert tab.text("#delays-readout").endswith(f": {written} behind")
            page.check("input[value=each]")
            tab.shows("#delays .note", "Each partition since this page was opened at")
            page.check("input[value=slowest]")
            tab.shows(".heat-names", "99")
            page.check("input[value=spread]")
            keep(tab, "page-many-partitions", "#delays")


CHAIN = """WITH tens AS (
    SELECT device, COUNT(*) AS n, System.Timestamp() AS at
    FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 10)
)
SELECT device, SUM(n) AS n, System.Timestamp() AS at INTO minutes
FROM tens GROUP BY device, HoppingWindow(second, 30, 10)

SELECT device, v INTO high FROM events TIMESTAMP BY t WHERE v > 5
"""


def test_a_real_run_of_two_windows_in_a_row_is_drawn_as_it_goes_on(browser: Browser, tmp_path: Path):
    folder = Folder(tmp_path / "job", CHAIN, late_seconds=20, out_of_order_seconds=2)

    def put(second: int) -> None:
        """Twenty events from a second on, one each second, in two partitions."""
        for partition in ("a", "b"):
            folder.put(
                partition,
                [
                    {"device": f"d{n % 3}", "v": n, "t": at(second + n), "arrived": at(second + n + 1)}
                    for n in range(20)
                ],
            )

    put(0)
    job = folder.job()
    with RunInProcess(job) as run, served(folder.directory.path) as address:
        write_outline(run.directory, outline_of(job))
        run.batch()
        run.report()
        wide = {"width": 1600, "height": 900}
        with opened(browser, address, expected=("/query",), viewport=wide) as tab:
            tab.shows(".connection", "live")
            for second in range(20, 80, 20):
                put(second)
                run.batch()
                run.report()
            status = answer(address, "status")
            assert status["events"] == 160
            tab.shows(".tiles", "160")
            tab.shows("#outputs", str(status["rows"]["minutes"]))
            assert status["rows"]["minutes"] > 0
            outputs = {row[0]: row for row in tab.rows("#outputs")}
            assert {name: int(row[3]) for name, row in outputs.items()} == status["rows"]
            assert tab.facts(".tiles")["watermark"].endswith(at(77)[11:19])
            tab.page.check("input[value=physical]")
            steps = {each["operator"]: each for each in status["steps"]}
            assert tab.page.locator(".node").count() == len(steps)
            for operator, step in steps.items():
                label = tab.page.locator(f'[data-node="operator:{operator}"]').get_attribute("aria-label")
                assert label is not None
                assert label.endswith(f"{step['rows_in']} rows in, {step['rows_out']} out")
            assert len(tab.page.locator("#windows svg.windows").all()) == 2
            keep(tab, "page-physical", "#steps")
