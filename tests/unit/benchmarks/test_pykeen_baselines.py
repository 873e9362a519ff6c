"""PyKEEN's models learn both directions of the facts they are given."""

import numpy as np
import pytest
import torch

from anykg.benchmarks import pykeen_baselines
from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph

pytest.importorskip("pykeen")


@pytest.mark.filterwarnings("ignore")
def test_facts_score_above_others_in_both_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(f"p{i}", "member of", f"g{i % 5}") for i in range(60)] + [
        (f"p{i}", "knows", f"p{i + 5}") for i in range(55)
    ]
    graph = KnowledgeGraph.from_names(*zip(*rows, strict=True))
    monkeypatch.setattr(pykeen_baselines, "MOST_EPOCHS", 30)
    monkeypatch.setattr(pykeen_baselines, "RANK", 32)
    [score] = pykeen_baselines.train("pykeen-complex", graph, [1e6])
    triplets = torch.from_numpy(graph.with_inverses().astype(np.int64))
    heads, relations, tails = triplets.T
    scores = score(heads, relations)
    known = graph.answers(heads.numpy(), relations.numpy())
    others = torch.ones(scores.shape, dtype=torch.bool)
    others[torch.from_numpy(known.rows), torch.from_numpy(known.values.astype(np.int64))] = False
    below = ((scores < scores.gather(1, tails[:, None])) & others).sum(1) / others.sum(1)
    inverse = relations >= graph.num_relations
    assert below[~inverse].mean() > 0.9
    assert below[inverse].mean() > 0.9


@pytest.mark.filterwarnings("ignore")
def test_one_training_is_measured_at_several_times(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(f"p{i}", "knows", f"p{(i + 5) % 40}") for i in range(40)]
    graph = KnowledgeGraph.from_names(*zip(*rows, strict=True))
    monkeypatch.setattr(pykeen_baselines, "MOST_EPOCHS", 20)
    monkeypatch.setattr(pykeen_baselines, "ROTATE_RANK", 8)
    ends = torch.arange(40), torch.zeros(40, dtype=torch.int64)
    early, late, later = (score(*ends) for score in pykeen_baselines.train("pykeen-rotate", graph, [1e6, 0.0, 1e7]))
    assert not torch.equal(early, late)
    assert torch.equal(late, later)  # the epochs were over before


def test_an_unknown_baseline_is_refused() -> None:
    graph = KnowledgeGraph.from_names(["a"], ["r"], ["b"])
    with pytest.raises(ConfigError, match="no baseline"):
        next(pykeen_baselines.train("transe", graph, [1.0]))
