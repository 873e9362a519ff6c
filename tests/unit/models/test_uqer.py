"""The model made of clauses: it learns on one graph and applies to another, and its scores can be read."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from anykg.errors import ConfigError
from anykg.evaluation.evaluate import evaluate
from anykg.evaluation.metrics import summarise
from anykg.evaluation.protocol import PROTOCOLS
from anykg.evaluation.symmetry import verify
from anykg.graph.split import hold_out
from anykg.models.store import load_model
from anykg.models.uqer import UQER, UQERConfig
from anykg.training.loop import TrainingGraph, train
from graphs import named, random_graph


def families(names: str, seed: int):  # type: ignore[no-untyped-def]
    """Couples live together, and their children with them; `names` are the three relations."""
    wed, child, lives = names.split()
    random = np.random.default_rng(seed)
    lines = []
    for i in range(60):
        town = f"town{random.integers(8)}"
        lines += [f"m{i} {wed} w{i}", f"m{i} {child} c{i}", *(f"{who}{i} {lives} {town}" for who in "mwc")]
    return named(*lines)


def test_learnt_on_one_graph_it_answers_on_another(tmp_path: Path) -> None:
    torch.manual_seed(0)
    source = families("married child_of lives_in", 0)
    known, valid = hold_out(source, 0.1, 0, "valid")
    recipe = replace(UQER.recipe, epochs=4, batch_size=64)
    train("uqer", UQER(), [TrainingGraph("families", known, valid)], recipe, out=tmp_path)
    model = load_model(tmp_path)
    other = families("partner offspring resides", 1)
    observed, test = hold_out(other, 0.1, 1, "test")
    for task in ("node", "relation"):
        found = evaluate(model, observed, test, task=task, protocol=PROTOCOLS["full"])  # type: ignore[arg-type]
        assert summarise(found.ranks.by(found.protocol.ties))["mrr"] > 0.6


def test_a_score_is_a_sum_over_clauses() -> None:
    graph, model = random_graph(12, 3, 50), UQER()
    rows = torch.from_numpy(graph.triplets[:5].astype(np.int64))
    terms = model.evidence(graph, rows) * model.weight
    torch.testing.assert_close(model.score_triplets(model.encode(graph), rows), terms.sum(1) + model.bias)
    assert terms.shape == (5, len(model.features))


@pytest.mark.parametrize("evidence", ["graded", "implied"])
@pytest.mark.parametrize("length", [1, 3])
def test_every_setting_is_symmetric(evidence: str, length: int) -> None:
    torch.manual_seed(length)
    graph = random_graph(25, 4, 90, 3)
    model = UQER(UQERConfig(length, evidence))  # type: ignore[arg-type]
    verdict = verify(model, graph, count=60)
    assert verdict.holds
    assert verdict.separated > 5


def test_lengths_are_checked() -> None:
    with pytest.raises(ConfigError, match="length: expected 1 to 3, found 4"):
        UQERConfig(length=4)
