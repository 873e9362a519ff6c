"""The public implementation's trained weights give its scores."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from anykg.graph.graph import KnowledgeGraph
from anykg.models.isdea.isdea import ISDEA, ISDEAConfig, distance_features, import_isdea_weights

pytestmark = pytest.mark.slow


class Golden:
    def __init__(self, data_dir: Path, golden_dir: Path) -> None:
        lines = (data_dir / "PediaTypes/EN2FR-15K-V2-ind/observe.txt").read_text(encoding="utf-8").splitlines()
        self.graph = KnowledgeGraph.from_names(*zip(*(line.split() for line in lines), strict=True))
        self.outputs = dict(np.load(golden_dir / "isdea_plus_EN2FR.npz"))
        self.weights = import_isdea_weights(load_file(golden_dir / "isdea_plus_EN2FR.safetensors"))
        ends = [self.graph.entities.ids(self.outputs[side].tolist()) for side in ("head", "tail")]
        kinds = self.graph.relations.ids(self.outputs["relation"].tolist())
        self.triplets = np.stack([ends[0], kinds, ends[1]], axis=1).astype(np.int64)
        # A corrupted triplet may be an observed fact; the public code then reads its distance off that very fact.
        self.asked = ~self.graph.contains(self.triplets)

    def model(self, form: str) -> ISDEA:
        model = ISDEA(ISDEAConfig(form=form))
        model.load_state_dict(self.weights)
        return model.eval()


@pytest.fixture(scope="module")
def golden(data_dir: Path, golden_dir: Path) -> Golden:
    return Golden(data_dir, golden_dir)


def test_distance_features_are_equal(golden: Golden) -> None:
    assert golden.graph.num_entities == golden.outputs["num_nodes"]
    assert golden.asked.sum() >= len(golden.asked) - 1
    found = distance_features(golden.graph, golden.triplets)
    np.testing.assert_array_equal(found[golden.asked], golden.outputs["distance_feature"][golden.asked])


@pytest.mark.parametrize("form", ["folded", "literal"])
@torch.no_grad()
def test_scores_are_equal(golden: Golden, form: str) -> None:
    model = golden.model(form)
    triplets, expected = golden.triplets[golden.asked], golden.outputs["score"][golden.asked]
    found = model.score_triplets(model.encode(golden.graph), torch.from_numpy(triplets)).sigmoid()
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("form", ["folded", "literal"])
@torch.no_grad()
def test_states_are_equal(golden: Golden, form: str) -> None:
    names = golden.outputs["node_first_names"].tolist()
    entities = torch.from_numpy(golden.graph.entities.ids(names).astype(np.int64))
    relation = golden.graph.relations.index(str(golden.outputs["node_first_relation"]))
    found = golden.model(form)._states(golden.graph, entities, torch.full_like(entities, relation))
    np.testing.assert_allclose(found.numpy(), golden.outputs["node_features_first"], rtol=0, atol=1e-5)
