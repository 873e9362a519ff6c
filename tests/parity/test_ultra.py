"""The published Ultra weights give the published scores, through the kernels and through torch."""

import numpy as np
import pytest
import torch

from anykg.graph.graph import KnowledgeGraph
from anykg.models.nbf import fast
from anykg.models.nbf.published import import_ultra_weights
from anykg.models.nbf.ultra import Ultra

TASKS = ["EN2FR", "DB2YG"]


@pytest.fixture(scope="module")
def model(golden_dir):
    state = torch.load(golden_dir / "ultra_3g.pth", weights_only=True, map_location="cpu")["model"]
    config, parameters = import_ultra_weights(state)
    result = Ultra(config)
    result.load_state_dict(parameters)
    assert sum(p.numel() for p in result.parameters()) == 168_705
    return result.eval()


@pytest.fixture(scope="module", params=TASKS)
def case(request, data_dir, golden_dir):
    path = data_dir / "PediaTypes" / f"{request.param}-15K-V2-ind" / "observe.txt"
    columns = zip(*(line.split() for line in path.read_text().splitlines()), strict=True)
    graph = KnowledgeGraph.from_names(*columns)
    return graph, np.load(golden_dir / f"ultra_3g_{request.param}.npz", allow_pickle=False)


def answer_ranks(scores: np.ndarray, answers: np.ndarray) -> np.ndarray:
    own = scores[np.arange(len(scores)), answers][:, None]
    return 1 + (scores > own).sum(1)


@pytest.mark.parametrize("path", ["kernels", "reference"])
@torch.no_grad()
def test_scores_and_ranks_are_the_published_ones(model, case, path, monkeypatch):
    graph, golden = case
    if path == "reference":
        monkeypatch.setattr(fast, "kernels_apply", lambda states: False)
    columns = graph.entities.ids(golden["entities"])
    row_of = np.empty(graph.num_entities, np.int64)
    row_of[columns] = np.arange(len(columns))
    heads, tails = (torch.tensor(graph.entities.ids(golden[k])).long() for k in ("head", "tail"))
    relations = torch.tensor(graph.relations.ids(golden["relation"])).long()
    encoded = model.encode(graph)
    for start, shift, answers, expected in (
        (heads, 0, tails, golden["tail_scores"]),
        (tails, graph.num_relations, heads, golden["head_scores"]),
    ):
        scores = model.score_tails(encoded, start, relations + shift).numpy()[:, columns]
        np.testing.assert_allclose(scores, expected, atol=1e-3)
        answers = row_of[answers.numpy()]
        assert (answer_ranks(scores, answers) == answer_ranks(expected, answers)).all()
