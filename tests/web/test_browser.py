"""The page in a real browser: ask, understand, look around, review, fit; nothing foreign, no error, usable by all."""

import json
import math
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

pytest.importorskip("fastapi", reason="the server needs the extra [serve]")
sync_api = pytest.importorskip("playwright.sync_api", reason="tests in a browser need the extra [browser]")

from webserver import TOKEN, Running

CHROMIUM = os.environ.get("ANYKG_CHROMIUM") or shutil.which("chromium") or ""
pytestmark = pytest.mark.skipif(
    not CHROMIUM, reason="tests in a browser need chromium: apt-get install chromium, or ANYKG_CHROMIUM"
)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
VIEWS: list[dict[str, str]] = [
    {"view": "ask"},
    {"view": "ask", "head": "Kosovo", "relation": "borders"},
    {"view": "ask", "head": "Kosvo", "relation": "borders"},
    {"view": "ask", "head": "Malta", "relation": "uses currency", "tail": "Euro"},
    {"view": "why", "head": "Malta", "relation": "uses currency", "tail": "Euro"},
    {"view": "explore", "at": "Kosovo"},
    {"view": "health"},
    {"view": "review"},
    {"view": "review", "mode": "list"},
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def page(browser: Any, server: Running) -> Iterator[Any]:
    """A page with the token; fails on any request to elsewhere and on any error in the console."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    opened = context.new_page()
    opened.set_default_timeout(60_000)
    foreign: list[str] = []
    errors: list[str] = []
    opened.on(
        "request",
        lambda request: None if request.url.startswith((server.root, "data:")) else foreign.append(request.url),
    )
    opened.on("pageerror", lambda error: errors.append(str(error)))
    # The browser itself reports every answer that is no success; those are part of some tests.
    opened.on(
        "console",
        lambda line: errors.append(line.text) if line.type == "error" and "status of 4" not in line.text else None,
    )
    opened.goto(server.address)
    yield opened
    context.close()
    assert not foreign
    assert not errors


def until(page: Any, expression: str, argument: Any = None, seconds: float = 60) -> None:
    """Wait until an expression holds; the page's own policy forbids the evaluation that wait_for_function relies on."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression, argument):
        assert time.monotonic() < end, f"{expression} did not become true"
        page.wait_for_timeout(100)


def show(page: Any, server: Running, **query: str) -> None:
    page.goto(f"{server.root}/?{urlencode({'g': 'atlas'} | query)}")
    until(page, "!document.querySelector('.loading, .starting')")


def choose(page: Any, label: str, text: str) -> None:
    box = page.get_by_role("combobox", name=label, exact=True)
    box.fill(text)
    page.locator("[role=option]").first.wait_for()
    box.press("Enter")


@pytest.fixture(scope="module")
def prepared(server: Running) -> None:
    """A check of `atlas`, and candidates for review."""
    import urllib.request

    def call(path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{server.root}/api/v1{path}", data, headers)) as answer:
            return json.load(answer)

    for kind, settings in (("check", {"facts": 60}), ("complete", {"count": 12, "relations": ["official language"]})):
        job = call(f"/graphs/atlas/{kind}", settings)
        while job["state"] in ("waiting", "running"):
            time.sleep(0.3)
            job = call(f"/jobs/{job['id']}")
        assert job["state"] == "done", job["error"]


def test_ask_explain_and_go_back(page: Any, server: Running, prepared: None) -> None:
    show(page, server)
    choose(page, "Head", "kenya")
    choose(page, "Relation", "un reg")
    page.get_by_role("listitem").first.wait_for()
    assert "African Group" in page.locator(".answer").first.inner_text()
    assert re.search(r"\d%", page.locator(".answer .value").first.inner_text())
    page.get_by_role("link", name="Why African Group?").click()
    page.get_by_role("heading", name="Why Kenya").wait_for()
    page.get_by_text("hidden for this explanation").wait_for()
    other = page.locator("section", has=page.get_by_role("heading", name=re.compile("Why not|prefers")))
    assert re.search(r"Without one of these facts the lead is", other.inner_text())
    assert other.locator("li.reason").count() > 0
    page.locator(".drawing svg .node").first.wait_for()
    assert page.locator(".drawing .edge.asked").count() > 0
    page.get_by_label("Only paths through").select_option(index=1)
    until(page, "document.querySelectorAll('.drawing .dim').length > 0")
    assert "via=" in page.url
    page.get_by_role("button", name="Show all").click()
    page.get_by_label("Only paths of shape").select_option(index=1)
    until(page, "document.querySelectorAll('.drawing .dim').length > 0")
    assert "shape=" in page.url
    assert "via=" not in page.url
    page.get_by_role("heading", name="Without these facts").wait_for()
    page.go_back()
    page.locator(".answer").first.wait_for()


def test_a_link_shows_what_was_sent(page: Any, server: Running) -> None:
    show(page, server, view="ask", relation="member of", tail="European Union")
    assert page.get_by_role("combobox", name="Tail", exact=True).input_value() == "European Union"
    page.locator(".answer .tag", has_text="known").first.wait_for()
    page.get_by_label("Show known facts").uncheck()
    until(page, "!document.querySelector('.answer .tag.good')")
    assert "known=0" in page.url


def test_an_unknown_name_offers_others(page: Any, server: Running) -> None:
    show(page, server, view="ask", head="Kosvo", relation="borders")
    page.get_by_role("alert").get_by_role("button", name="Kosovo", exact=True).click()
    page.locator(".answer").first.wait_for()


def test_expand_collapse_and_undo(page: Any, server: Running) -> None:
    show(page, server, view="explore", at="Kosovo")
    until(page, "window.anykgDrawing && window.anykgDrawing.nodes().length > 3")
    before = page.evaluate("window.anykgDrawing.nodes().length")
    position = page.evaluate("window.anykgDrawing.getElementById('Albania').renderedPosition()")
    box = page.locator(".canvas").bounding_box()
    page.mouse.click(box["x"] + position["x"], box["y"] + position["y"])
    until(page, f"window.anykgDrawing.nodes().length > {before}")
    assert "open=" in page.url
    page.get_by_role("button", name="Undo").click()
    until(page, f"window.anykgDrawing.nodes().length === {before}")
    page.get_by_role("button", name="Predict").first.click()
    until(page, "window.anykgDrawing.edges('.predicted').length > 0")


LABELS = """() => {
  const drawn = window.anykgDrawing, boxes = [];
  drawn.nodes().forEach((node) => {
    boxes.push({ ...node.position(), width: node.width(), height: node.height(), angle: 0 });
  });
  const entities = boxes.length;
  drawn.edges().filter((edge) => edge.style("label")).forEach((edge) => {
    const { labelX: x, labelY: y, labelWidth: width, labelHeight: height, labelAngle: angle } = edge._private.rscratch;
    boxes.push({ x, y, width, height, angle });
  });
  return { boxes, entities, edges: drawn.edges().length };
}"""


def overlapping(one: dict[str, float], other: dict[str, float]) -> bool:
    """Whether two rotated rectangles overlap: none of their sides separates them."""
    for angle in (box["angle"] + turn for box in (one, other) for turn in (0, math.pi / 2)):
        reach = sum(
            box["width"] * abs(math.cos(box["angle"] - angle)) + box["height"] * abs(math.sin(box["angle"] - angle))
            for box in (one, other)
        )
        apart = (one["x"] - other["x"]) * math.cos(angle) + (one["y"] - other["y"]) * math.sin(angle)
        if abs(apart) >= reach / 2 - 1:  # half a pixel on either side
            return False
    return True


def test_labels_of_the_drawing_do_not_cover_each_other(page: Any, server: Running) -> None:
    show(page, server, view="explore", at="Kosovo", open=json.dumps(["Albania", "Serbia"]))
    until(page, "window.anykgDrawing && window.anykgDrawing.edges('.covered').length > 0")
    found = page.evaluate(LABELS)
    boxes, labels = found["boxes"], len(found["boxes"]) - found["entities"]
    assert labels >= 5, "most stay"
    for index, box in enumerate(boxes):
        assert not any(overlapping(box, other) for other in boxes[:index]), (box, index)
    hidden = "window.anykgDrawing.edges('.covered')[0]"
    assert page.evaluate(f"{hidden}.style('label')") == ""
    page.evaluate(f"{hidden}.emit('mouseover')")
    assert page.evaluate(f"{hidden}.style('label') === {hidden}.data('label')"), "pointing at a line shows its label"


def test_review_by_keyboard_with_undo(page: Any, server: Running, prepared: None) -> None:
    show(page, server, view="review")
    shown = page.locator(".candidate h2")
    first = shown.inner_text()
    page.get_by_label("Your name").fill("Ada")
    page.get_by_label("Note", exact=True).fill("seen in a book")
    page.locator("h1").click()
    page.keyboard.press("a")
    until(page, "text => document.querySelector('.candidate h2').innerText !== text", first)
    second = shown.inner_text()
    page.keyboard.press("r")
    until(page, "text => document.querySelector('.candidate h2').innerText !== text", second)
    page.keyboard.press("u")
    until(page, "text => document.querySelector('.candidate h2').innerText === text", second)
    page.get_by_text("1 of 12 reviewed").wait_for()
    page.reload()
    page.get_by_text("1 of 12 reviewed").wait_for()
    decisions = next((server.data / "decisions").glob("atlas-*.jsonl"))
    lines = [json.loads(line) for line in decisions.read_text().splitlines()]
    assert [line["verdict"] for line in lines] == ["accept", "reject", "undo"]
    assert (lines[0]["reviewer"], lines[0]["note"]) == ("Ada", "seen in a book")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert Path(download.value.path()).read_text().count("\n") == 1
    page.get_by_label("Format").select_option("quickstatements")
    page.get_by_role("link", name="Download").click()
    page.get_by_role("alert").filter(has_text="Wikidata").wait_for()  # not a download that fails in silence


def test_an_audit_is_reviewed(page: Any, server: Running) -> None:
    page.goto(f"{server.root}/?{urlencode({'g': 'people', 'view': 'review', 'source': 'audit'})}")
    page.get_by_label("How many").select_option("50")
    page.get_by_label("Minutes").select_option("0.2")
    page.get_by_role("button", name="Find doubtful facts").click()
    page.get_by_role("progressbar", name="Auditing known facts").wait_for()
    page.reload()  # the job goes on
    page.get_by_text(re.compile("^0 of [1-9][0-9]* reviewed")).wait_for()
    assert page.locator(".candidate p").first.inner_text(), "a doubtful fact comes with its reason"
    page.get_by_role("button", name="Wrong").click()
    page.get_by_text(re.compile("^1 of [0-9]+ reviewed")).wait_for()
    page.get_by_text("0 correct, 1 wrong").wait_for()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download (1)").click()
    assert Path(download.value.path()).read_text().count("\n") == 1


def test_a_second_tab_is_told_what_the_first_decided(page: Any, server: Running, prepared: None) -> None:
    show(page, server, view="review", relation="official language")
    other = page.context.new_page()
    other.goto(page.url)
    other.locator(".candidate h2").wait_for()
    page.locator(".candidate h2").wait_for()
    assert other.locator(".candidate h2").inner_text() == page.locator(".candidate h2").inner_text()
    page.get_by_role("button", name="Accept").click()
    page.get_by_role("status").filter(has_text="Accepted").wait_for()
    other.get_by_role("button", name="Reject").click()
    other.get_by_role("alert").filter(has_text="decided in the meantime").wait_for()


def test_a_file_is_opened_from_the_page(page: Any, server: Running, tmp_path: Path) -> None:
    file = tmp_path / "pets.csv"
    file.write_text("owner,has,pet\nAnn,owns,Rex\nBob,owns,Tom\nAnn,knows,Bob\n")
    show(page, server)
    page.get_by_label("Graph", exact=True).select_option(label="Open a file …")
    page.locator("#upload-file").set_input_files(file)
    page.get_by_role("button", name="Use this graph").click()
    page.wait_for_url("**g=pets**")
    page.get_by_text("Some questions about pets.csv").wait_for()


def test_fit_from_the_page(page: Any, server: Running) -> None:
    import anykg

    if not hasattr(anykg, "fit"):
        pytest.skip("this version has no fit")
    show(page, server, view="health")
    page.get_by_label("Minutes").select_option("0.5")
    page.get_by_role("button", name="Fit", exact=True).click()
    page.get_by_role("button", name="Stop").wait_for()
    page.reload()  # the job goes on
    page.set_default_timeout(180_000)
    page.get_by_text("mean reciprocal rank is").or_(page.locator(".note.good")).first.wait_for()
    page.locator("strong", has_text="fitted-1").first.wait_for()


def test_the_theme_follows_the_system_and_the_choice(page: Any, server: Running) -> None:
    colour = "getComputedStyle(document.documentElement).backgroundColor"
    show(page, server)
    light = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    until(page, f"light => {colour} !== light", light)
    page.get_by_role("button", name="Theme").click()  # dark
    page.get_by_role("button", name="Theme").click()  # light
    until(page, f"light => {colour} === light", light)
    page.reload()
    page.get_by_role("button", name="Theme: light").wait_for()
    assert page.evaluate(colour) == light


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nobody_is_kept_out(page: Any, server: Running, prepared: None, theme: str, width: int) -> None:
    """No serious finding of axe in any view, and nothing wider than the screen."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs the extra [browser]")
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    for query in VIEWS:
        show(page, server, **query)
        found = axe.Axe().run(page).response["violations"]
        serious = [
            (rule["id"], [node["target"] for node in rule["nodes"]][:3])
            for rule in found
            if rule["impact"] in ("serious", "critical")
        ]
        assert not serious, (query, serious)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{query} is too wide"


def test_everything_can_be_reached_by_keyboard(page: Any, server: Running) -> None:
    show(page, server)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip-link"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "combobox"
    page.keyboard.type("koso")
    page.locator("[role=option]").first.wait_for()
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    active = page.evaluate("document.activeElement.getAttribute('aria-activedescendant')")
    assert page.locator(f"#{active}").get_attribute("aria-selected") == "true"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "false"
