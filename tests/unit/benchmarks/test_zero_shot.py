from pathlib import Path

import numpy as np
import pytest

from anykg.benchmarks import zero_shot
from anykg.benchmarks.zero_shot import answer_seen, run, write_table
from anykg.evaluation.evaluate import evaluate
from anykg.evaluation.protocol import PROTOCOLS
from anykg.graph.graph import KnowledgeGraph
from anykg.models.random import RandomScorer

LIMITS = {"node": 5, "relation": 4}


def test_cells_are_kept_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    run({"dice": RandomScorer()}, ["atlas"], results=tmp_path, limits=LIMITS, tell=messages.append)  # type: ignore[arg-type]
    text = write_table(tmp_path, LIMITS).read_text()  # type: ignore[arg-type]
    assert [line.rsplit(" ", 1)[0] for line in messages] == [
        f"atlas {task} {protocol} dice: MRR" for task, protocol in zero_shot.KINDS
    ]
    assert text.count("| **mean** |") == 4
    assert "## node task, full protocol on other graphs" in text  # `atlas` is not one of the twelve
    assert "| dice |" in text.split("## Cost")[1]
    run({"same": RandomScorer()}, ["atlas"], results=tmp_path, limits=LIMITS)  # type: ignore[arg-type]
    # What another call found stays, and one model's graphs are not another's.
    assert "dice is +0.0% relative to same" in write_table(tmp_path, LIMITS).read_text()  # type: ignore[arg-type]
    monkeypatch.setattr(zero_shot, "evaluate", None)  # nothing is asked again
    run({"dice": RandomScorer()}, ["atlas"], results=tmp_path, limits=LIMITS)  # type: ignore[arg-type]
    monkeypatch.setattr(zero_shot, "digest_of", lambda model: "other")
    with pytest.raises(TypeError):  # but with other weights it is
        run({"dice": RandomScorer()}, ["atlas"], results=tmp_path, limits=LIMITS)  # type: ignore[arg-type]


def test_answers_are_seen_on_their_own_side() -> None:
    graph = KnowledgeGraph.from_names(list("ace"), list("rrs"), list("bbf"))
    test = graph.subset(np.array([True, False, True]))
    observed = graph.subset(np.array([False, True, False]))  # leaves (r, b), but neither (a, r) nor anything of s
    found = evaluate(RandomScorer(), observed, test, task="node", protocol=PROTOCOLS["full"])
    r, s = (graph.relations.index(name) for name in ("r", "s"))
    asked = zip(found.triplets[:, 1], found.sides, answer_seen(found), strict=True)
    assert {(relation, side): seen for relation, side, seen in asked} == {
        (r, "tail"): True,
        (r, "head"): False,
        (s, "tail"): False,
        (s, "head"): False,
    }
