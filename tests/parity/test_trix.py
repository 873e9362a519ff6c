"""The published TRIX weights give the published scores, through the kernels and through torch."""

import numpy as np
import pytest
import torch

from anykg.errors import CheckpointError
from anykg.graph.graph import KnowledgeGraph
from anykg.models.nbf import fast, reference, trix
from anykg.models.nbf.published import import_trix_weights
from anykg.models.nbf.trix import TRIX
from anykg.models.published import import_weights
from graphs import random_graph

TASKS = ["EN2FR", "DB2YG"]


def published(path):
    state = torch.load(path, weights_only=True, map_location="cpu")["model"]
    config, parameters = import_trix_weights(state)
    model = TRIX(config)
    model.load_state_dict(parameters)
    return model.eval()


@pytest.fixture(scope="module", params=TASKS)
def case(request, data_dir, golden_dir):
    path = data_dir / "PediaTypes" / f"{request.param}-15K-V2-ind" / "observe.txt"
    columns = zip(*(line.split() for line in path.read_text().splitlines()), strict=True)
    graph = KnowledgeGraph.from_names(*columns)
    golden = np.load(golden_dir / f"trix_{request.param}.npz", allow_pickle=False)
    heads, tails = (torch.tensor(graph.entities.ids(golden[k])).long() for k in ("head", "tail"))
    return graph, golden, heads, torch.tensor(graph.relations.ids(golden["relation"])).long(), tails


@pytest.fixture(params=["kernels", "reference"])
def path(request, monkeypatch):
    if request.param == "reference":
        monkeypatch.setattr(fast, "kernels_apply", lambda states: False)
        monkeypatch.setattr(trix, "relation_messages", reference.relation_messages)
        monkeypatch.setattr(trix, "relation_update", reference.relation_update)
        monkeypatch.setattr("anykg.models.nbf.queries.BLOCK_BYTES", 4 * 2**20)  # the links of few queries at once


TIE = 1e-5
"""Scores that differ by less are equal: a pair of the golden file is 7e-7 apart, a fiftieth of its error in float32."""


def ranks(scores, answers):
    own = scores[np.arange(len(scores)), answers][:, None]
    return 1 + (scores > own + TIE).sum(1)


@pytest.mark.usefixtures("path")
@torch.no_grad()
def test_entity_scores_and_ranks_are_the_published_ones(case, golden_dir):
    graph, golden, heads, relations, tails = case
    model = published(golden_dir / "trix_entity.pth")
    columns = graph.entities.ids(golden["entities"])
    index = np.empty(graph.num_entities, np.int64)
    index[columns] = np.arange(len(columns))
    encoded = model.encode(graph)
    for start, shift, answers, expected in (
        (heads, 0, tails, golden["tail_scores"]),
        (tails, graph.num_relations, heads, golden["head_scores"]),
    ):
        scores = model.score_tails(encoded, start, relations + shift).numpy()[:, columns]
        np.testing.assert_allclose(scores, expected, atol=1e-3)
        answers = index[answers.numpy()]
        assert (ranks(scores, answers) == ranks(expected, answers)).all()


@pytest.mark.usefixtures("path")
@torch.no_grad()
def test_relation_scores_and_ranks_are_the_published_ones(case, golden_dir):
    graph, golden, heads, relations, tails = case
    model = published(golden_dir / "trix_relation.pth")
    columns = graph.relations.ids(golden["relations"])
    index = np.empty(graph.num_relations, np.int64)
    index[columns] = np.arange(len(columns))
    scores = model.score_relations(model.encode(graph), heads, tails).numpy()[:, columns]
    np.testing.assert_allclose(scores, golden["relation_scores"], atol=1e-3)
    answers = index[relations.numpy()]
    assert (ranks(scores, answers) == ranks(golden["relation_scores"], answers)).all()


@torch.no_grad()
def test_both_files_make_one_model(golden_dir, tmp_path):
    files = [golden_dir / f"trix_{name}.pth" for name in ("entity", "relation")]
    name, both = import_weights(*files[::-1])
    assert name == "trix"
    assert both.config.networks == "both"
    graph = random_graph(30, 4, 90)
    entity, relation = (published(file) for file in files)
    encoded, ends = both.encode(graph), torch.arange(4)
    for model, ask in ((entity, "score_tails"), (relation, "score_relations")):
        assert torch.equal(getattr(both, ask)(encoded, ends, ends), getattr(model, ask)(encoded, ends, ends))
    with pytest.raises(CheckpointError, match="Only the two files of TRIX"):
        import_weights(files[0], files[0])
