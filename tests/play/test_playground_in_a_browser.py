"""The playground in a real browser: what is drawn is what the engine answers, and typing changes it.

With TIDEGLASS_PICTURES=FOLDER the pictures of the documents are written there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from support.browser import Tab, chromium, opened
from tideglass.page.application import Page
from tideglass.page.job_table import JobTable
from tideglass.page.server import Address, PageServer
from tideglass.play.evaluation import play
from tideglass.play.player import Player
from tideglass.play.playgrounds import example

pytestmark = pytest.mark.long

SIZES = {"telephone": (390, 844), "tablet": (768, 1024), "laptop": (1024, 768), "desktop": (1280, 900)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    player = Player(example(), seconds=60)
    player.start()
    with PageServer(Page(JobTable(), player=player), Address(port=0)) as server:
        yield server.url
    player.close()


def played(tab: Tab) -> None:
    """Wait until what is typed has been played."""
    tab.page.set_default_timeout(60_000)
    tab.page.wait_for_selector("#decisions")
    tab.shows(".busy", "in ")
    tab.page.set_default_timeout(10_000)


def test_decisions_windows_and_rows_are_those_of_the_engine(browser: Browser, address: str):
    start = example()
    outcome = play(start, start.attempt)
    with opened(browser, address) as tab:
        played(tab)
        decisions = tab.rows("#decisions")
        assert [row[-3] for row in decisions] == [each.words for each in outcome.events]
        assert [int(row[0]) for row in decisions] == [each.line for each in outcome.events]
        assert tab.text("#decisions .caption") == "8 accepted, 3 adjusted, 1 dropped"
        assert [row[:1] + row[2:5] for row in tab.rows("#windows")] == [
            ["12:05:00 – 12:10:00", "3", "1", "5"],
            ["12:15:00 – 12:20:00", "5", "5", "10"],
            ["12:20:00 – 12:25:00", "3", "10", "not yet"],
        ]
        assert [(row[0], row[2], row[3]) for row in tab.rows("#rows")] == [
            (str(row.line or "end of input"), row.values["deviceId"], row.values["events"])
            for row in outcome.rows
        ]


def test_a_slider_changes_the_decisions_at_once(browser: Browser, address: str):
    with opened(browser, address) as tab:
        played(tab)
        slider = tab.page.locator("#early_seconds")
        slider.focus()
        tab.page.keyboard.press("End")
        assert tab.text("label[for=early_seconds] output") == "no limit"
        tab.shows("#decisions .caption", "0 dropped")
        tab.page.locator("#tolerances input[value=drop]").check()
        tab.shows("#decisions .caption", "0 adjusted")
        tab.page.locator("button", has_text="Start again").click()
        tab.shows("#decisions .caption", "8 accepted, 3 adjusted, 1 dropped")
        assert tab.text("label[for=early_seconds] output") == "5 min"


def test_every_control_of_the_playground_is_reached_by_tab_and_a_slider_moves_by_keys(
    browser: Browser, address: str
):
    with opened(browser, address) as tab:
        played(tab)
        assert tab.walk() > 8
        assert tab.check("unreached") == []
        slider = tab.page.locator("input[type=range]").first
        before = slider.input_value()
        slider.focus()
        tab.page.keyboard.press("ArrowRight")
        assert slider.input_value() != before
        assert slider.get_attribute("aria-valuetext") or slider.evaluate("each => each.labels.length")


def test_a_mistake_is_shown_with_its_place_and_hint_and_a_click_leads_there(browser: Browser, address: str):
    with opened(browser, address) as tab:
        played(tab)
        before = "SELECT deviceId\nFROM devices TIMESTAMP BY eventTime\nWHERE "
        tab.page.locator("#query").fill(f"{before}LENN(deviceId) > 1")
        tab.shows("#query-card .problems", "line 3, column 7")
        assert "LENN" in tab.text("#query-card .problems")
        assert "did you mean 'len'?" in tab.text("#query-card .hint")
        tab.page.locator("#query-card .problems .link").click()
        assert tab.page.evaluate("document.activeElement.id") == "query"
        assert tab.page.evaluate("document.activeElement.selectionStart") == len(before)
        tab.page.locator("#query").fill("SELECT deviceId INTO o FROM devices TIMESTAMP BY eventTime")
        tab.shows("#rows", "11 rows")
        tab.page.locator("#events").fill('{"deviceId": "a"}\n{"deviceId"')
        tab.shows("#events-card .problems", "line 2 is no JSON")


def test_text_of_an_event_is_shown_and_never_run(browser: Browser, address: str):
    with opened(browser, address) as tab:
        played(tab)
        markup = "<img src=x onerror=alert(1)><b>bold</b>"
        tab.page.locator("#query").fill("SELECT deviceId AS [<i>x</i>] INTO o FROM devices")
        tab.page.locator("#events").fill(json.dumps({"deviceId": markup}))
        tab.shows("#rows", markup)
        assert "<i>x</i>" in tab.texts("#rows th")[-1]
        assert tab.page.locator("#rows img, #rows b, #rows i").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_the_playground_fits_every_size_in_both_themes(browser: Browser, address: str, size: str, theme: str):
    width, height = SIZES[size]
    viewport = {"width": width, "height": height}
    with opened(browser, address, viewport=viewport, color_scheme=theme, reduced_motion="reduce") as tab:
        played(tab)
        tab.page.mouse.move(0, 0)
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.check("faint") == []
        assert tab.check("unnamed") == []
        assert tab.check("overlapping") == []
        if folder := os.environ.get("TIDEGLASS_PICTURES"):
            tab.page.screenshot(path=f"{folder}/play-{size}-{theme}.png", full_page=True)
