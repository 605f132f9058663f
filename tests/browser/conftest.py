"""A headless Chromium for the tests of the page; they are skipped where there is none."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

_CHROMIUM = next(
    (
        path
        for name in (
            os.environ.get("CHROMIUM", ""),
            "chromium",
            "chromium-browser",
            "google-chrome",
        )
        if name and (path := shutil.which(name))
    ),
    None,
)
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass
class Opened:
    """A page that is ready, with everything that it complained about."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    session: Any = None

    def cpu_s(self) -> float:
        """CPU time of the page's main thread: what else the machine does has no part in it."""
        metrics = self.session.send("Performance.getMetrics")["metrics"]
        return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if _CHROMIUM is None:
        pytest.skip("no Chromium is installed (set CHROMIUM to its path)")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=_ARGUMENTS)
        yield browser
        browser.close()


def open_page(browser: Browser, path: Path, count_cpu: bool = False, **context: Any) -> Opened:
    """Opens a report from disk and waits until all its charts are drawn."""
    page = browser.new_context(viewport={"width": 1300, "height": 900}, **context).new_page()
    opened = Opened(page)
    if count_cpu:
        opened.session = page.context.new_cdp_session(page)
        opened.session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.on("console", lambda message: opened.complaints.append(message.text))
    page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    page.on("dialog", lambda dialog: opened.complaints.append(dialog.message))
    page.on("request", lambda request: opened.requests.append(request.url))
    page.goto(path.as_uri())
    wait_until(
        page,
        "document.querySelectorAll('figure').length"
        " === document.querySelectorAll('figure[data-ready]').length",
    )
    return opened


def wait_until(page: Page, condition: str, seconds: float = 20) -> None:
    """Waits for a condition; playwright's own way of waiting needs `eval`, which the page bans."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        if time.monotonic() > end:
            raise TimeoutError(condition)
        page.wait_for_timeout(20)
