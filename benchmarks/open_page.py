"""What a report's page costs the browser: opening it, zooming its swimlanes, picking an operation.

Prints CPU time of the page's main thread, which other work on the machine does not change:

    python benchmarks/open_page.py REPORT_DIR... [--chromium PATH]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

READY = "[...document.querySelectorAll('figure')].every((f) => f.dataset.ready === 'yes')"
SETTLED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
ACTIONS = {
    "zoom": "explane.swimlanes[0].zoom(0.8, 0.4)",
    "pick": "document.querySelector('#ops button.pick').click()",
}
REPEATS = 15


def main() -> None:
    """Opens each page and prints a row of a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", nargs="+", type=Path, metavar="REPORT_DIR")
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    options = parser.parse_args()
    print("| page | MB | events | open, s | zoom, ms: median (most) | pick, ms: median (most) |")
    print("|---|---:|---:|---:|---:|---:|")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=options.chromium, args=["--no-sandbox"]
        )
        for report in options.reports:
            context = browser.new_context(viewport={"width": 1400, "height": 900}, bypass_csp=True)
            print(row(report / "report.html", context.new_page()), flush=True)
            context.close()


def row(path: Path, page: Page) -> str:
    """Opens a page; what it cost."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(path.resolve().as_uri())
    page.wait_for_function(READY, timeout=120_000)
    cells = [path.parent.name, f"{path.stat().st_size / 1e6:.1f}"]
    cells.append(f"{page.evaluate('explane.swimlanes[0].lanes.events.start.length'):,}")
    cells.append(f"{busy_s(session):.2f}")
    for code in ACTIONS.values():
        costs = []
        for _ in range(REPEATS):
            before = busy_s(session)
            page.evaluate(code)
            page.wait_for_function("!explane.swimlanes[0].pending")
            page.evaluate(SETTLED)
            costs.append((busy_s(session) - before) * 1e3)
        cells.append(f"{statistics.median(costs):.0f} ({max(costs):.0f})")
    return f"| {' | '.join(cells)} |"


def busy_s(session: Any) -> float:
    """CPU time that the page's main thread has used, in seconds."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))


if __name__ == "__main__":
    main()
