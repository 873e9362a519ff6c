"""Every registered model passes `check_model`, and `check_model` catches models that cheat."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from anykg.evaluation.symmetry import separates, verify
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import EncodedGraph, LinkPredictor, Symmetry
from anykg.models.ingram.ingram import InGramConfig
from anykg.models.isdea.isdea import ISDEAConfig
from anykg.models.nbf.nbfnet import NBFNetConfig
from anykg.models.registry import MODELS
from anykg.testing import CHECKS, ContractError, check_model
from anykg.testing.graphs import DIFFERENT, TEAM
from anykg.testing.other_device import other_device
from graphs import random_graph


@pytest.mark.parametrize("name", list(MODELS))
def test_registered_models_keep_the_contract(name: str) -> None:
    check_model(MODELS.load(name))


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("ingram", InGramConfig(samples=2)),
        ("isdea+", ISDEAConfig(gnn="gin")),
        ("isdea+", ISDEAConfig(aggregation="mean", readout="plain")),
        ("isdea+", ISDEAConfig(form="literal", aggregation="max")),
        ("nbfnet", NBFNetConfig(relation_vectors="trained")),
    ],
)
def test_other_settings_keep_it_too(name: str, config: object) -> None:
    check_model(MODELS.load(name), config, seed=3)


@pytest.mark.parametrize("name", [name for name in MODELS if MODELS.load(name).reads_relations])
def test_models_tell_all_different_triplets_apart(name: str) -> None:
    """More than the contract asks for, which is one pair of each kind."""
    model_class = MODELS.load(name)
    torch.manual_seed(0)
    model = model_class.build(model_class.Config(), TEAM)
    assert all(separates(model, TEAM, one, other) for pairs in DIFFERENT.values() for one, other in pairs)


class Degrees(LinkPredictor):
    """An honest little model: how often the tail ends a fact of the relation, and how many facts the head begins."""

    symmetry = Symmetry.EXACT

    def __init__(self, config: object = None) -> None:
        super().__init__(config)
        self.weight = nn.Parameter(torch.ones(4))

    def score_triplets(self, encoded: EncodedGraph, triplets: Tensor) -> Tensor:
        facts = torch.from_numpy(encoded.graph.with_inverses().astype(np.int64)).to(triplets.device)
        head, relation, tail = (triplets[:, i, None] for i in range(3))
        ends = (facts[:, 2] == tail) & (facts[:, 1] == relation)
        begins = (facts[:, 0] == head) & (facts[:, 1] == relation)
        counts = [ends.sum(1), begins.sum(1), (facts[:, 0] == tail).sum(1), (facts[:, 0] == head).sum(1)]
        return torch.stack(counts, dim=1).to(self.weight).log1p() @ self.weight


class LeaksTargets(Degrees):
    """Scores its targets on a graph that contains them."""

    def training_scores(self, graph: KnowledgeGraph, rows: Tensor, seed: int, targets: Tensor | None = None) -> Tensor:
        return self.score_triplets(self.encode(graph, seed), rows.reshape(-1, 3)).view(rows.shape[:2])


class IgnoresTargets(Degrees):
    """Hides the rows' targets, but not the others it is told to."""

    def training_scores(self, graph: KnowledgeGraph, rows: Tensor, seed: int, targets: Tensor | None = None) -> Tensor:
        return super().training_scores(graph, rows, seed)


class PeeksAtIds(Degrees):
    def score_triplets(self, encoded: EncodedGraph, triplets: Tensor) -> Tensor:
        return super().score_triplets(encoded, triplets) + 0.01 * triplets[:, 0]


class PeeksAtRelationIds(Degrees):
    def score_triplets(self, encoded: EncodedGraph, triplets: Tensor) -> Tensor:
        return super().score_triplets(encoded, triplets) + 0.01 * (triplets[:, 1] == 0)


class Constant(Degrees):
    def score_triplets(self, encoded: EncodedGraph, triplets: Tensor) -> Tensor:
        return self.weight.sum().expand(len(triplets))


class SecretlyBlind(Degrees):
    """Says that it reads relations, and does not."""

    def score_triplets(self, encoded: EncodedGraph, triplets: Tensor) -> Tensor:
        facts = torch.from_numpy(encoded.graph.triplets.astype(np.int64)).to(triplets.device)
        return (facts[:, 2] == triplets[:, 2:]).sum(1).to(self.weight) * self.weight.sum()


class Drifts(Degrees):
    """Claims symmetry in expectation, but a mean depends on an id."""

    symmetry = Symmetry.IN_EXPECTATION

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> EncodedGraph:
        self.noise = torch.randn(1, generator=torch.Generator().manual_seed(seed))
        return EncodedGraph(graph)

    def score_triplets(self, encoded: EncodedGraph, triplets: Tensor) -> Tensor:
        return super().score_triplets(encoded, triplets) + self.noise.to(triplets.device) + triplets[:, 0]


class DependsOnBatch(Degrees):
    def score_triplets(self, encoded: EncodedGraph, triplets: Tensor) -> Tensor:
        scores = super().score_triplets(encoded, triplets)
        return scores - scores.mean() if len(scores) else scores


class KeepsStateOutside(Degrees):
    """Has a number that no checkpoint holds."""

    def __init__(self, config: object = None) -> None:
        super().__init__(config)
        self.factor = float(torch.rand(()))

    def score_triplets(self, encoded: EncodedGraph, triplets: Tensor) -> Tensor:
        return super().score_triplets(encoded, triplets) * self.factor


class DrawsGlobally(Degrees):
    def score_triplets(self, encoded: EncodedGraph, triplets: Tensor) -> Tensor:
        return super().score_triplets(encoded, triplets) + 1e-6 * torch.rand(len(triplets))


class NeedsFacts(Degrees):
    def score_triplets(self, encoded: EncodedGraph, triplets: Tensor) -> Tensor:
        return super().score_triplets(encoded, triplets) / max(len(encoded.graph), 0)


class CutsGradients(Degrees):
    def score_triplets(self, encoded: EncodedGraph, triplets: Tensor) -> Tensor:
        return super().score_triplets(encoded, triplets).detach() + 0 * self.weight.sum()


class StaysOnTheCpu(Degrees):
    def score_triplets(self, encoded: EncodedGraph, triplets: Tensor) -> Tensor:
        known = torch.from_numpy(encoded.graph.contains(triplets.numpy()))
        return super().score_triplets(encoded, triplets) + 0.1 * known


class MixesDevices(Degrees):
    def score_triplets(self, encoded: EncodedGraph, triplets: Tensor) -> Tensor:
        return super().score_triplets(encoded, triplets) + torch.zeros(len(triplets))


def test_an_honest_model_passes() -> None:
    check_model(Degrees)


@pytest.mark.parametrize(
    ("cheat", "check"),
    [
        (LeaksTargets, "leak"),
        (IgnoresTargets, "leak"),
        (PeeksAtIds, "symmetry"),
        (PeeksAtRelationIds, "symmetry"),
        (Drifts, "symmetry"),
        (Constant, "separation"),
        (SecretlyBlind, "separation"),
        (DependsOnBatch, "pieces"),
        (KeepsStateOutside, "saving"),
        (DrawsGlobally, "randomness"),
        (NeedsFacts, "sparse graphs"),
        (CutsGradients, "gradients"),
        (StaysOnTheCpu, "devices"),
        (MixesDevices, "devices"),
    ],
)
def test_cheats_are_caught(cheat: type[LinkPredictor], check: str) -> None:
    with pytest.raises(ContractError, match=f"{cheat.__name__} breaks the model contract") as caught:
        check_model(cheat)
    assert check in caught.value.failures, str(caught.value)


def test_all_failures_are_reported_together() -> None:
    class Hopeless(LeaksTargets, PeeksAtIds):
        reads_relations = False

    with pytest.raises(ContractError) as caught:
        check_model(Hopeless)
    assert {"symmetry", "separation", "leak"} <= set(caught.value.failures)
    assert all(f"  {name}: " in str(caught.value) for name in caught.value.failures)
    assert set(caught.value.failures) <= set(CHECKS)


@pytest.mark.parametrize("name", list(MODELS))
def test_no_model_declares_less_than_it_keeps(name: str) -> None:
    """Where a model says that relations matter, they do, at least on graphs it was not built for."""
    graph = random_graph(30, 5, 90, 0)
    model_class = MODELS.load(name)
    torch.manual_seed(0)
    model = model_class.build(model_class.Config(), random_graph(10, 3, 20)).eval()
    if model.symmetry is not Symmetry.ENTITIES_ONLY:
        pytest.skip("declares more")
    model.symmetry = Symmetry.EXACT
    assert not verify(model, graph).holds


def test_the_pretended_device_behaves_like_one() -> None:
    with other_device() as device:
        there = torch.arange(6.0).to(device).requires_grad_()
        assert there.device.type == device
        there[[0, 2]].pow(2).sum().backward()  # type: ignore[no-untyped-call]
        assert there.grad.cpu().tolist() == [0.0, 0.0, 4.0, 0.0, 0.0, 0.0]
        assert (there + 1).tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        assert torch.tensor([1, 2], device=device).cpu().numpy().tolist() == [1, 2]
        with pytest.raises(RuntimeError, match="same device"):
            there + torch.ones(6)
        with pytest.raises(TypeError, match=r"call \.cpu\(\) first"):
            there.detach().numpy()
