"""Screenshots of every view of `anykg serve`, for the docs and for looking at them.

    python scripts/screenshots.py OUT [--docs] [--only VIEW]

Starts a server on `atlas`, and on `atlas` without some of its facts, so that the pictures show true facts being found.
With --docs only the pictures of docs/serve.md are made, small enough to be kept.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright

CHROMIUM = os.environ.get("ANYKG_CHROMIUM", "/usr/bin/chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
SIZES = {"desktop": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 844}}
FACT = {"head": "Malta", "relation": "in UN regional group", "tail": "Western European and Others Group"}
GAPS, HIDDEN = "atlas-with-gaps", 100
"""Facts that are left out of the graph beside that one."""
VIEWS = {
    "start": {"view": "ask"},
    "ask": {"view": "ask", "head": FACT["head"], "relation": FACT["relation"]},
    "ask-known": {"view": "ask", "relation": "member of", "tail": "European Union"},
    "ask-unknown": {"view": "ask", "head": "Kosvo", "relation": "borders"},
    "score": {"view": "ask"} | FACT,
    "why": {"view": "why"} | FACT,
    "explore": {"view": "explore", "at": "Malta"},
    "explore-open": {"view": "explore", "at": "Malta", "open": '["Maltese"]',
                     "predict": '["Malta", "in UN regional group", "out"]'},
    "health": {"view": "health", "g": "atlas"},
    "review": {"view": "review"},
    "review-list": {"view": "review", "mode": "list"},
    "audit": {"view": "review", "source": "audit"},
}  # fmt: skip
HIDE_PATHS = "document.querySelectorAll('code').forEach((c) => { c.textContent = c.textContent.split('/').at(-1); })"
"""Paths of the machine that makes the pictures do not belong into them."""
DOCS = [("ask", "desktop"), ("why", "desktop"), ("explore-open", "desktop"), ("health", "desktop"),
        ("review", "desktop")]  # fmt: skip


@contextmanager
def server() -> Iterator[str]:
    """A server on most of `atlas`; yields its address with the token."""
    with tempfile.TemporaryDirectory() as data:
        graph = Path(data) / f"{GAPS}.tsv"
        write_most_of_atlas(graph)
        command = [
            sys.executable,
            "-m",
            "anykg",
            "serve",
            str(graph),
            "atlas",
            "--no-browser",
            "--port",
            "0",
            "--data",
            data,
        ]
        environment = os.environ | {"XDG_CACHE_HOME": data, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen([*command, "--data", data], stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        try:
            yield next(found[0] for line in process.stdout if (found := re.search(r"http://\S+", line)))
        finally:
            process.terminate()
            process.wait()


def write_most_of_atlas(path: Path) -> None:
    """Write `atlas` without FACT and without some others drawn at random."""
    import anykg

    rows = anykg.read_graph("atlas").to_polars().rows()
    hidden = {tuple(FACT.values()), *random.Random(0).sample(rows, HIDDEN)}
    path.write_text("".join("\t".join(row) + "\n" for row in rows if row not in hidden), encoding="utf-8")


def settle(page: Page, view: str) -> None:
    """Wait until nothing is loading any more."""
    page.wait_for_load_state("networkidle")
    while page.evaluate("Boolean(document.querySelector('.loading, .starting'))"):
        page.wait_for_timeout(100)
    if view.startswith("explore"):
        page.wait_for_timeout(1200)


def wait_for_jobs(page: Page) -> None:
    """Run the checks and look for facts, so that every view has something to show."""
    script = """async ([graph, kind]) => {
      const body = JSON.stringify({complete: {count: 100}, audit: {count: 50, minutes: 0.5}}[kind] || {});
      const made = await fetch(`/api/v1/graphs/${graph}/${kind}`, {method: "POST", body,
        headers: {"content-type": "application/json"}}).then((r) => r.json());
      for (;;) {
        const job = await fetch(`/api/v1/jobs/${made.id}`).then((r) => r.json());
        if (["done", "failed", "stopped"].includes(job.state)) return job.state + job.error;
        await new Promise((resolve) => setTimeout(resolve, 500));
      }
    }"""
    identifier = page.evaluate("fetch('/api/v1/graphs').then((r) => r.json()).then((r) => r.graphs[0].id)")
    for graph, kind in ((identifier, "check"), ("atlas", "check"), (identifier, "complete"), (identifier, "audit")):
        state = page.evaluate(script, [graph, kind])
        assert state == "done", f"{kind}: {state}"


def main() -> None:
    """Make the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, server() as address:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        root = address.split("?")[0]
        first = browser.new_page()
        first.goto(address)
        wait_for_jobs(first)
        cookies = first.context.storage_state()
        for size, viewport in SIZES.items():
            for theme in ("light",) if arguments.docs else ("light", "dark"):
                context = browser.new_context(
                    viewport=viewport, color_scheme=theme, storage_state=cookies, reduced_motion="reduce"
                )
                page = context.new_page()
                for name, query in VIEWS.items():
                    if (arguments.docs and (name, size) not in DOCS) or not name.startswith(arguments.only):
                        continue
                    if name == "why" and size == "desktop":  # with the contrast below the drawing
                        page.set_viewport_size(viewport | {"height": 1080})
                    else:
                        page.set_viewport_size(viewport)
                    page.goto(f"{root}?{urlencode(query)}")
                    settle(page, name)
                    page.evaluate(HIDE_PATHS)
                    suffix = "" if arguments.docs and size == "desktop" else f"-{size}"
                    suffix += "" if theme == "light" else f"-{theme}"
                    page.screenshot(path=arguments.out / f"{name}{suffix}.png", full_page=not arguments.docs)
                context.close()
        browser.close()


if __name__ == "__main__":
    main()
