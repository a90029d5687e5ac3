"""The report in a browser: it opens without an error and without the network, zooms, and shows tooltips. Skipped where there is none."""

import shutil

import pytest

from clustersim.reports.page import MAX_BARS
from clustersim.trace.files import write_trace
from tests.reports.test_report import EVIL, made, profiled, run_folder, table, trace_of  # noqa: F401 (fixtures)

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def visit(browser):
    """Open a page at a width; it with what it said that it should not have, and what it asked for."""
    pages = []

    def call(path, width):
        page = browser.new_page(viewport={"width": width, "height": 900})
        pages.append(page)
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: request.url.startswith(("file:", "data:", "blob:")) or page.complaints.append(request.url))
        page.on("dialog", lambda dialog: (page.complaints.append(dialog.message), dialog.dismiss()))
        page.goto(path.as_uri())
        page.wait_for_selector("#gantt .nsewdrag", state="attached", timeout=60_000)
        return page

    yield call
    for page in pages:
        page.close()


def drag_area(page):
    page.evaluate("document.getElementById('gantt').scrollIntoView()")
    return page.locator("#gantt .nsewdrag").first.bounding_box()


def zoom(page, begin, end):
    box = drag_area(page)
    y = box["y"] + 10
    page.mouse.move(box["x"] + box["width"] * begin, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, y, steps=5)
    page.mouse.up()
    page.wait_for_timeout(1_000)


def shown_range(page, name="gantt"):
    return page.evaluate(f"document.getElementById('{name}').layout.xaxis.range.map(Number)")


def tooltip(page, row=0):
    """What a row says, somewhere."""
    box = drag_area(page)
    y = box["y"] + box["height"] * (row + 0.5) / page.evaluate("DATA.gantt.rows.length")
    for part in range(5, 95, 5):
        page.mouse.move(box["x"] + box["width"] * part / 100, y)
        page.wait_for_timeout(150)
        tip = page.locator("#gantt .hoverlayer .hovertext")
        if tip.count():
            return tip.first.text_content()
    return ""


@pytest.mark.parametrize("width", [1400, 900])
def test_it_opens_zooms_and_shows_a_tooltip(visit, run_folder, tmp_path, width):  # noqa: F811
    made(run_folder, tmp_path / "r.html")
    page = visit(tmp_path / "r.html", width)
    for name in ("gantt", "split", "activity", "memory", "links"):
        assert page.locator(f"#{name} .main-svg").first.bounding_box()["width"] <= width
    whole = shown_range(page)
    zoom(page, 0.3, 0.5)
    begin, end = shown_range(page)
    assert whole[0] < begin < end < whole[1]
    assert [shown_range(page, name) for name in ("activity", "memory", "links")] == [[begin, end]] * 3
    text = tooltip(page, row=1)
    for word in ("start", "duration", "bytes", "slack", "layer", "micro-batch", "rank 0 tensor"):
        assert word in text
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.complaints == []


def test_many_ops_are_merged_until_one_zooms_in(visit, tmp_path):
    write_trace(trace_of(table(ops=4 * MAX_BARS, rank=0)), tmp_path / "run")
    made(tmp_path / "run", tmp_path / "r.html")
    page = visit(tmp_path / "r.html", 1400)
    assert "too many to draw one by one" in page.inner_text("#gantt-note")
    assert "merged, mostly forward" in tooltip(page)
    zoom(page, 0.4, 0.42)
    assert page.inner_text("#gantt-note").endswith("ops in view are drawn one by one.")
    assert "duration 1 ms" in tooltip(page)
    assert page.complaints == []


def test_a_profiler_trace_opens_too(visit, profiled, tmp_path):  # noqa: F811
    made(profiled, tmp_path / "r.html")
    page = visit(tmp_path / "r.html", 1400)
    assert "compute kernel" in tooltip(page)
    assert page.complaints == []


def test_a_name_that_is_markup_is_shown_as_it_is(visit, tmp_path):
    write_trace(trace_of(table(name=EVIL)), tmp_path / "run")
    made(tmp_path / "run", tmp_path / "r.html")
    page = visit(tmp_path / "r.html", 1400)
    assert EVIL in tooltip(page)
    assert page.complaints == []
