from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from explane.report.output import OutputFolder
from explane.report.write import write_report
from tests.browser.conftest import Opened, open_page, wait_until
from tests.unit.report.frames import investigation, swimlane
from tests.unit.report.test_write import HOSTILE

pytestmark = pytest.mark.browser


def written(folder: Path, hostile: str = "", **tables: Any) -> Path:
    whole = investigation(hostile)
    whole = replace(whole, tables={**whole.tables, **tables})
    with OutputFolder(folder) as output:
        write_report(whole, output)
    return folder / "report.html"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("page") / "out")


@pytest.fixture(scope="module")
def shared(browser: Any, report: Path) -> Opened:
    return open_page(browser, report)


@pytest.fixture
def opened(shared: Opened) -> Opened:
    """The page as it was when it opened: nothing picked, filtered or zoomed."""
    shared.page.set_viewport_size({"width": 1300, "height": 900})
    shared.page.keyboard.press("Escape")
    shared.page.evaluate(
        """() => {
            for (const input of document.querySelectorAll('input')) {
                input.value = '';
                input.dispatchEvent(new Event('input'));
            }
            explane.swimlanes[0].show(...explane.swimlanes[0].full);
            window.scrollTo(0, 0);
        }"""
    )
    return shared


def column(opened: Opened, caption: str, title: str) -> list[str]:
    """Texts of a column of the table with a caption, rows that are hidden left out."""
    return list(
        opened.page.evaluate(
            """([caption, title]) => {
                const box = [...document.querySelectorAll('.tablebox')].find(
                    (b) => b.querySelector('.caption').textContent.startsWith(caption));
                const heads = [...box.querySelectorAll('thead th button')];
                const at = heads.findIndex((h) => h.textContent === title);
                return [...box.querySelectorAll('tbody tr:not(.hidden)')].map(
                    (row) => row.cells[at].textContent);
            }""",
            [caption, title],
        )
    )


def box(opened: Opened, caption: str) -> Any:
    return opened.page.locator(".tablebox").filter(has_text=caption).first


def test_the_page_opens_without_a_complaint_and_asks_for_nothing(opened: Opened) -> None:
    assert opened.complaints == []
    assert len(opened.requests) == 1
    assert opened.requests[0].startswith("file:")


def test_verdict_and_findings_are_in_view_at_once(opened: Opened) -> None:
    page = opened.page
    assert "host-bound" in page.locator(".glance").inner_text()
    top = "document.querySelector('#findings').getBoundingClientRect().top"
    assert page.evaluate(top) < 600


def test_charts_are_drawn(opened: Opened) -> None:
    for figure in opened.page.locator("figure").all():
        size = figure.locator("canvas").bounding_box()
        assert size is not None
        assert size["width"] > 400
        assert size["height"] > 40


def test_a_click_on_a_heading_sorts_by_value_both_ways(opened: Opened) -> None:
    caption = "GPU time by HLO instruction"
    heading = box(opened, caption).get_by_role("button", name="time", exact=True)
    raw = "[...document.querySelectorAll('#ops .tablebox:first-of-type tbody tr')].map("
    raw += "(r) => Number(r.cells[1].querySelector('[data-raw]').dataset.raw))"
    heading.click()
    descending = opened.page.evaluate(raw)
    assert descending == sorted(descending, reverse=True)
    heading.click()
    assert opened.page.evaluate(raw) == sorted(descending)
    name = box(opened, caption).get_by_role("button", name="instruction", exact=True)
    name.click()
    names = column(opened, caption, "instruction")
    number = [int(text.removeprefix("fusion.")) for text in names]
    assert number == sorted(number)
    assert box(opened, caption).locator("th[aria-sort=ascending]").count() == 1


def test_words_filter_rows(opened: Opened) -> None:
    caption = "GPU time by HLO instruction"
    search = box(opened, caption).get_by_role("searchbox")
    search.fill("FUSION.6 memcpy")
    assert column(opened, caption, "instruction") == ["fusion.6"]
    assert "1 rows match" in box(opened, caption).locator(".status").inner_text()
    search.fill("no such kernel")
    assert column(opened, caption, "instruction") == []
    assert box(opened, caption).locator(".empty").is_visible()
    search.fill("")
    assert len(column(opened, caption, "instruction")) > 10


def window(opened: Opened) -> tuple[float, float]:
    found = opened.page.evaluate("[explane.swimlanes[0].from, explane.swimlanes[0].to]")
    return float(found[0]), float(found[1])


def test_the_swimlanes_zoom_and_move(opened: Opened) -> None:
    page = opened.page
    figure = page.locator("figure[data-swimlanes]")
    first = window(opened)
    figure.get_by_role("button", name="Zoom in").click()
    half = window(opened)
    assert half[1] - half[0] == pytest.approx((first[1] - first[0]) / 2)
    canvas = figure.locator("canvas")
    canvas.scroll_into_view_if_needed()
    size = canvas.bounding_box()
    assert size is not None
    x, y = size["x"] + size["width"] / 2, size["y"] + size["height"] / 2
    page.mouse.move(x, y)
    page.mouse.wheel(0, -200)
    page.wait_for_function(
        f"explane.swimlanes[0].to - explane.swimlanes[0].from < {half[1] - half[0]}"
    )
    before = window(opened)
    page.mouse.down()
    page.mouse.move(x - 80, y, steps=4)
    page.mouse.up()
    assert window(opened)[0] > before[0]
    figure.get_by_role("button", name="whole step").click()
    assert window(opened) == first


def test_the_swimlanes_work_from_the_keyboard(opened: Opened) -> None:
    page = opened.page
    first = window(opened)
    page.locator("figure[data-swimlanes] .canvas").focus()
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    moved = window(opened)
    assert moved[1] - moved[0] < first[1] - first[0]
    page.keyboard.press("Home")
    assert window(opened) == first
    page.keyboard.press("n")
    page.keyboard.press("n")
    details = page.locator("figure[data-swimlanes] .details")
    assert "duration" in details.inner_text()
    assert details.get_attribute("aria-live") == "polite"


def test_what_is_picked_in_one_place_is_marked_in_the_others(opened: Opened) -> None:
    page = opened.page
    button = page.locator("#ops button.pick[data-key='7/fusion.1']").first
    button.click()
    for section in ("#ops", "#roofline", "#swimlanes"):
        assert page.locator(f"{section} tr.picked[data-op='7/fusion.1']").count() >= 1, section
    lines = page.locator("#ops tr.picked[data-line]:not([data-op])")
    assert [row.get_attribute("data-line") for row in lines.all()] == ["/home/u/train.py:11"]
    assert chart_picks(opened, "roofline") == ["7/fusion.1", "", ""]
    assert chart_picks(opened, "lines") == ["/home/u/train.py:11"]
    assert chart_picks(opened, "scopes") == ["jit(f)/jit(main)/layer_1/add"]
    assert button.get_attribute("aria-pressed") == "true"
    shown = "explane.swimlanes[0].view.data('events').filter((e) => !e.faded && e.n === 1)"
    wait_until(page, f"{shown}.length < 20")
    names = page.evaluate(f"{shown}.map((e) => explane.swimlanes[0].text('op', e.i))")
    assert set(names) == {"7/fusion.1"}
    page.keyboard.press("Escape")
    assert page.locator("tr.picked").count() == 0
    assert chart_picks(opened, "roofline") == ["", "", ""]


def chart_picks(opened: Opened, stem: str) -> list[str]:
    """Values of the signals by which a chart shows the picked thing: op, line, scope."""
    signals = "explane.views[stem].getState().signals"
    return list(
        opened.page.evaluate(
            f"""(stem) => ['op', 'line', 'scope'].map((kind) => 'picked_' + kind)
                .filter((name) => name in {signals}).map((name) => {signals}[name])""",
            stem,
        )
    )


def test_a_line_and_a_scope_mark_all_that_belongs_to_them(opened: Opened) -> None:
    page = opened.page
    page.locator("#ops button.pick[data-key='/home/u/train.py:12']").first.click()
    in_ops = page.locator("#ops tr.picked[data-op]")
    assert in_ops.count() >= 2
    assert {row.get_attribute("data-line") for row in in_ops.all()} == {"/home/u/train.py:12"}
    assert chart_picks(opened, "roofline") == ["", "/home/u/train.py:12", ""]
    page.evaluate("explane.pick('scope', 'jit(f)/jit(main)/layer_3')")
    scopes = {row.get_attribute("data-scope") for row in page.locator("tr.picked").all()}
    assert scopes == {"jit(f)/jit(main)/layer_3/add"}
    assert chart_picks(opened, "scopes") == ["jit(f)/jit(main)/layer_3"]
    assert chart_picks(opened, "lines") == [""]


def test_operations_of_two_programs_with_one_name_are_two(
    browser: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ops = investigation().tables["ops"]
    other = ops.with_columns(pl.lit(8).alias("program_id").cast(ops["program_id"].dtype))
    page = written(tmp_path_factory.mktemp("programs") / "out", ops=pl.concat([ops, other]))
    opened = open_page(browser, page)
    opened.page.locator("#ops button.pick[data-key='8/fusion.1']").first.click()
    assert opened.page.locator("tr.picked[data-op='8/fusion.1']").count() >= 1
    assert opened.page.locator("tr.picked[data-op='7/fusion.1']").count() == 0
    opened.page.context.close()


def test_a_click_on_a_kernel_picks_its_operation(opened: Opened) -> None:
    page = opened.page
    canvas = page.locator("figure[data-swimlanes] canvas")
    canvas.scroll_into_view_if_needed()
    place = page.evaluate(
        """() => {
            const { view, lanes } = explane.swimlanes[0];
            const event = view.data('events').filter((e) => e.kind === 'compute')
                .sort((a, b) => (b.end - b.start) - (a.end - a.start))[0];
            const [x, y] = view.origin();
            return {
                op: explane.swimlanes[0].text('op', event.i),
                instruction: explane.swimlanes[0].text('instruction', event.i),
                x: x + view.scale('x')((event.start + event.end) / 2),
                y: y + view.scale('y')(event.lane) + view.scale('y').bandwidth() / 2,
            };
        }"""
    )
    canvas.hover(position={"x": place["x"], "y": place["y"]})
    tip = page.locator(".tip")
    wait_until(page, "!document.querySelector('.tip').hidden")
    assert place["instruction"] in tip.inner_text()
    for word in ("instruction", "op name", "line", "match", "duration"):
        assert word in tip.inner_text()
    canvas.click(position={"x": place["x"], "y": place["y"]})
    assert page.locator(f"tr.picked[data-op='{place['op']}']").count() >= 1


def test_lines_are_picked_from_their_chart(opened: Opened) -> None:
    page = opened.page
    canvas = page.locator("figure[data-chart=lines] canvas")
    canvas.click(position={"x": 250, "y": 15})
    assert page.locator("tr.picked[data-line]").count() >= 1


def test_the_theme_follows_the_system_and_the_button(browser: Any, report: Path) -> None:
    opened = open_page(browser, report, color_scheme="dark")
    page = opened.page
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(15, 19, 24)"
    page.get_by_role("button", name="light or dark").click()
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    page.wait_for_timeout(300)
    assert opened.complaints == []
    page.context.close()


def test_every_control_and_table_has_a_name(opened: Opened) -> None:
    nameless = opened.page.evaluate(
        """[...document.querySelectorAll('button, input, [role=img], [role=region], nav')].filter(
            (e) => !(e.textContent.trim() || e.getAttribute('aria-label')
                || e.getAttribute('aria-labelledby'))).map((e) => e.outerHTML)"""
    )
    assert nameless == []
    assert opened.page.evaluate("document.documentElement.lang") == "en"
    headings = opened.page.evaluate(
        "[...document.querySelectorAll('h1, h2')].map((h) => h.tagName)"
    )
    assert headings.count("H1") == 1
    ids = opened.page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("width", [420, 900, 1600])
def test_nothing_makes_the_page_wider_than_the_window(opened: Opened, width: int) -> None:
    opened.page.set_viewport_size({"width": width, "height": 800})
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_names_are_shown_and_not_obeyed(
    browser: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    page = written(tmp_path_factory.mktemp("hostile") / "out", HOSTILE)
    opened = open_page(browser, page)
    assert opened.complaints == []
    assert len(opened.requests) == 1
    assert opened.page.evaluate("document.querySelectorAll('img').length") == 0
    assert "<script>alert(1)</script>" in opened.page.locator("#ops").inner_text()
    opened.page.locator("#ops button.pick").first.click()
    opened.page.locator("figure[data-swimlanes] canvas").hover()
    opened.page.locator("figure[data-swimlanes] .canvas").focus()
    opened.page.keyboard.press("n")
    opened.page.wait_for_timeout(200)
    assert opened.complaints == []
    scripts_of_others_are_refused(opened)


def scripts_of_others_are_refused(opened: Opened) -> None:
    """The content security policy holds even if markup got in."""
    opened.page.evaluate(
        """() => {
            const script = document.createElement('script');
            script.textContent = 'window.owned = true';
            document.body.append(script);
            const text = '<b onclick="window.owned = true">x</b>';
            document.body.insertAdjacentHTML('beforeend', text);
            document.body.lastElementChild.click();
        }"""
    )
    assert opened.page.evaluate("window.owned") is None
    assert any("Content Security Policy" in text for text in opened.complaints)


def test_a_large_step_is_drawn_soon_and_stays_smooth(
    browser: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("large") / "out"
    page = written(folder, swimlane=swimlane(4, 3, 230, step_ps=120_000_000_000))
    assert page.stat().st_size < 6_000_000
    opened = open_page(browser, page, count_cpu=True)
    assert opened.cpu_s() < 3
    costs_s = []
    for _ in range(25):
        before_s = opened.cpu_s()
        opened.page.evaluate("explane.swimlanes[0].zoom(0.8, 0.4)")
        wait_until(opened.page, "!explane.swimlanes[0].pending")
        costs_s.append(opened.cpu_s() - before_s)
    assert len(opened.page.evaluate("explane.swimlanes[0].frames")) >= 25
    assert statistics.median(costs_s) < 0.1, costs_s
    opened.page.context.close()
