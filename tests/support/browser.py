"""A headless Chromium for tests of the page.

It is looked for on the PATH, among Playwright's own, and, where there is neither, as the npm package
`@sparticuz/chromium`, which the Node of `pyright[nodejs]` fetches once into the user's cache. Without any of
them the tests are skipped, with the reason.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from support.node_packages import fetched, node

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PACKAGE = "@sparticuz/chromium"


@cache
def executable() -> tuple[str | None, str]:
    """The path of a Chromium; where there is none, why."""
    for name in NAMES:
        if path := shutil.which(name):
            return path, ""
    with sync_playwright() as playwright:
        if Path(playwright.chromium.executable_path).exists():
            return playwright.chromium.executable_path, ""
    return _from_npm()


def _from_npm() -> tuple[str | None, str]:
    script = f"import('{PACKAGE}').then(m => m.default.executablePath()).then(p => console.log(p))"
    try:
        folder = fetched(PACKAGE).parents[2]
        path = node("node", folder, "--input-type=module", "-e", script).strip().splitlines()[-1]
    except (OSError, IndexError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", None) or error
        return None, f"no {', '.join(NAMES)} on the PATH, and {PACKAGE} cannot be had: {output}"
    return path, ""


@contextmanager
def chromium() -> Generator[Browser]:
    """A headless Chromium; the tests that ask for it are skipped where there is none."""
    path, reason = executable()
    if path is None:
        pytest.skip(f"THE PAGE IS NOT TESTED IN A BROWSER: {reason}")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"]
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Tab:
    """A page in the browser, and what it did that a page must not do.

    page: of Playwright.
    complaints: errors of scripts, messages of the console, requests that failed or went elsewhere.
    """

    page: Page
    complaints: list[str] = field(default_factory=list[str])

    def text(self, selector: str) -> str:
        return " ".join((self.page.locator(selector).first.inner_text()).split())

    def texts(self, selector: str) -> list[str]:
        return [" ".join(each.split()) for each in self.page.locator(selector).all_inner_texts()]

    def check(self, name: str, *arguments: Any) -> Any:
        """What a function of `page_checks.js` answers."""
        return self.page.evaluate("([name, rest]) => checks[name](...rest)", [name, arguments])

    def facts(self, selector: str) -> Mapping[str, str]:
        """The names and values of a list of facts."""
        return self.check("facts", selector)

    def rows(self, selector: str) -> list[list[str]]:
        """The cells of the bodies of tables."""
        return self.check("rows", selector)

    def walk(self, most: int = 400) -> int:
        """Go with Tab to what was reached before, past the end of the page; how many controls that are."""
        reached = 0
        for _ in range(most):
            self.page.keyboard.press("Tab")
            if self.check("focused") == "body":
                continue  # past the end; it goes on at the top
            if not self.check("reach"):
                break
            assert self.check("focusShows"), f"focus does not show on {self.check('focused')}"
            reached += 1
        return reached

    def shows(self, selector: str, text: str) -> None:
        """Wait until a part of the page shows a text."""
        script = "([selector, text]) => document.querySelector(selector)?.innerText.includes(text)"
        self.page.wait_for_function(script, arg=[selector, text])

    def measures(self) -> list[float]:
        """How long each refresh took, milliseconds."""
        return self.page.evaluate("performance.getEntriesByName('refresh').map(each => each.duration)")


@contextmanager
def opened(
    browser: Browser, address: str, *, expected: tuple[str, ...] = (), **options: Any
) -> Generator[Tab]:
    """A tab at an address, once the job is drawn. expected: parts of complaints that may be."""
    context = browser.new_context(**options)
    context.add_init_script(path=Path(__file__).with_name("page_checks.js"))
    page = context.new_page()
    page.set_default_timeout(10_000)
    tab, server = Tab(page), urlsplit(address).netloc

    def log(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            tab.complaints.append(f"{message.type}: {message.text} {message.location.get('url', '')}")

    def request(asked: Request) -> None:
        if urlsplit(asked.url).netloc != server:
            tab.complaints.append(f"elsewhere: {asked.url}")

    page.on("console", log)
    page.on("pageerror", lambda error: tab.complaints.append(f"error: {error}"))
    page.on("request", request)
    try:
        page.goto(address)
        page.wait_for_selector("#content")
        yield tab
        found = [each for each in tab.complaints if not any(part in each for part in expected)]
        assert found == []
    finally:
        context.close()
