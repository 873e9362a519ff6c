"""Mined rules in the user's cache."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from anykg.io import cache
from anykg.rules import kept
from anykg.rules.named import Mining, NamedRules, mine_named
from graphs import random_graph

GRAPH = random_graph(30, 3, 150)


@pytest.fixture
def mined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Mining]:
    """The settings of every mining; all rules are kept."""
    calls: list[Mining] = []

    def mine(graph: object, settings: Mining, **how: object) -> NamedRules:
        calls.append(settings)
        return mine_named(GRAPH, settings)

    monkeypatch.setattr(kept, "mine_named", mine)
    monkeypatch.setattr(kept, "LEAST_SECONDS", -1.0)
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    return calls


def test_a_graph_is_mined_once(mined: list[Mining]) -> None:
    first, again = (kept.kept_rules(GRAPH, Mining()) for _ in range(2))
    assert len(mined) == 1
    assert all(np.array_equal(value, asdict(again)[name]) for name, value in asdict(first).items())
    assert len(first) > 0


def test_other_facts_settings_and_seeds_are_mined_anew(mined: list[Mining]) -> None:
    kept.kept_rules(GRAPH, Mining())
    kept.kept_rules(GRAPH.subset(np.arange(len(GRAPH)) > 0), Mining())
    kept.kept_rules(GRAPH, Mining(length=2))
    kept.kept_rules(GRAPH, Mining(), seed=1)
    assert len(mined) == 4


def test_the_cache_lists_and_clears_them(mined: list[Mining]) -> None:
    kept.kept_rules(GRAPH, Mining())
    [entry] = cache.entries()
    assert (entry.source, entry.triplets) == (f"rules of {GRAPH.name}", len(GRAPH))
    assert cache.clear()[0] == 1
    assert not cache.entries()


@pytest.mark.parametrize("content", [b"no rules", b""])
def test_damaged_rules_are_mined_anew(mined: list[Mining], content: bytes) -> None:
    kept.kept_rules(GRAPH, Mining())
    cache.entries()[0].path.write_bytes(content)
    assert cache.entries()[0].source == "damaged"
    kept.kept_rules(GRAPH, Mining())
    assert len(mined) == 2


def test_without_a_cache_nothing_is_kept(mined: list[Mining], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.LIMIT, "0")
    kept.kept_rules(GRAPH, Mining())
    assert not cache.entries()


def test_few_files_are_kept(mined: list[Mining], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_FILES", 2)
    for seed in range(4):
        kept.kept_rules(GRAPH, Mining(), seed)
    assert len(cache.entries()) == 2
