"""What every registered model promises. A new row of the registry is tested here without a new line."""

import numpy as np
import pytest
import torch

from anykg.evaluation.symmetry import sample_triplets, separates, verify
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor, Symmetry
from anykg.models.registry import MODELS
from graphs import named, random_graph

FORMULA_1 = named(
    "Red_Bull_Racing racing_driver Max_Verstappen",
    "Max_Verstappen teammate Sergio_Pérez",
    "Sergio_Pérez teammate Max_Verstappen",
    "Christian_Horner team_principal Red_Bull_Racing",
    "Christian_Horner manages Max_Verstappen",
    "Christian_Horner manages Sergio_Pérez",
)
COMPANY = named(
    "Sundar_Pichai boss_of Jeff_Dean",
    "Sundar_Pichai boss_of Sanjay_Ghemawat",
    "Sundar_Pichai chief_executive Google",
    "Sanjay_Ghemawat colleague Jeff_Dean",
    "Jeff_Dean colleague Sanjay_Ghemawat",
    "Google employee Sanjay_Ghemawat",
)
DIFFERENT = [  # pairs of triplets of FORMULA_1 that no relabelling maps onto each other
    (("Red_Bull_Racing", "racing_driver", "Sergio_Pérez"), ("Red_Bull_Racing", "teammate", "Sergio_Pérez")),
    (("Red_Bull_Racing", "racing_driver", "Sergio_Pérez"), ("Red_Bull_Racing", "manages", "Sergio_Pérez")),
    (("Red_Bull_Racing", "racing_driver", "Sergio_Pérez"), ("Red_Bull_Racing", "racing_driver", "Christian_Horner")),
    (("Christian_Horner", "manages", "Sergio_Pérez"), ("Christian_Horner", "manages", "Red_Bull_Racing")),
]
TURNED = (("Christian_Horner", "manages", "Sergio_Pérez"), ("Sergio_Pérez", "manages", "Christian_Horner"))
BLIND_TO_DIRECTION = {"ingram"}  # its score is a product of three vectors, the same from either end


def build(name: str, graph: KnowledgeGraph, seed: int = 0) -> LinkPredictor:
    torch.manual_seed(seed)
    model_class = MODELS.load(name)
    model: LinkPredictor = model_class.build(model_class.Config(), graph)
    return model.eval()


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", list(MODELS))
def test_declared_symmetry_holds(name: str, seed: int) -> None:
    graph = random_graph(30, 5, 90, seed)
    verdict = verify(build(name, graph, seed), graph, count=80, seed=seed)
    assert verdict.holds, verdict


@pytest.mark.parametrize("name", list(MODELS))
def test_relabelling_relations_moves_entities_only_models(name: str) -> None:
    """Where a model says that relation names matter, they do: the weaker claim is not made for comfort."""
    graph = random_graph(30, 5, 90, 0)
    model = build(name, graph)
    if model.symmetry is not Symmetry.ENTITIES_ONLY:
        pytest.skip("claims more")
    model.symmetry = Symmetry.EXACT
    assert not verify(model, graph).holds


@pytest.mark.parametrize("name", list(MODELS))
def test_isomorphic_triplets_of_two_graphs_score_alike(name: str) -> None:
    """The paper's Figure 1(a): a racing team and a company."""
    model = build(name, FORMULA_1)
    if model.symmetry is not Symmetry.EXACT:
        pytest.skip(f"symmetry is {model.symmetry}")
    scores = []
    for graph, (h, r, t) in (
        (FORMULA_1, ("Red_Bull_Racing", "racing_driver", "Sergio_Pérez")),
        (COMPANY, ("Google", "employee", "Jeff_Dean")),
    ):
        row = torch.tensor([[graph.entities.index(h), graph.relations.index(r), graph.entities.index(t)]])
        with torch.no_grad():
            scores.append(model.score_triplets(model.encode(graph), row).item())
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)


@pytest.mark.parametrize("name", list(MODELS))
def test_different_triplets_score_differently(name: str) -> None:
    model = build(name, FORMULA_1)
    if not model.reads_relations:
        pytest.skip("ignores relation types")
    assert all(separates(model, FORMULA_1, one, other) for one, other in DIFFERENT)
    assert separates(model, FORMULA_1, *TURNED) == (name not in BLIND_TO_DIRECTION)


@pytest.mark.parametrize("name", list(MODELS))
def test_models_blind_to_relations_say_so(name: str) -> None:
    model = build(name, FORMULA_1)
    with torch.no_grad():
        scores = model.score_relations(model.encode(FORMULA_1), torch.tensor([0]), torch.tensor([1]))
    assert (len(torch.unique(scores)) > 1) == model.reads_relations


@pytest.mark.parametrize("name", list(MODELS))
def test_three_ways_to_ask_agree(name: str) -> None:
    """score_tails, score_relations and score_triplets are one function; candidates are a selection of all."""
    graph = random_graph(15, 4, 40, 1)
    model = build(name, graph)
    rows = torch.from_numpy(sample_triplets(graph, 12, np.random.default_rng(0)))
    direct = rows[rows[:, 1] < graph.num_relations]
    picked = torch.tensor([[3, 0, 14]]).expand(len(rows), -1)
    with torch.no_grad():
        encoded = model.encode(graph)
        single = model.score_triplets(encoded, rows)
        tails = model.score_tails(encoded, rows[:, 0], rows[:, 1])
        some = model.score_tails(encoded, rows[:, 0], rows[:, 1], picked)
        relations = model.score_relations(encoded, direct[:, 0], direct[:, 2])
        alone = model.score_triplets(encoded, direct)
    assert tails.shape == (len(rows), graph.num_entities)
    assert relations.shape == (len(direct), graph.num_relations)
    torch.testing.assert_close(tails.gather(1, rows[:, 2:]).squeeze(1), single, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(tails.gather(1, picked), some, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(relations.gather(1, direct[:, 1:2]).squeeze(1), alone, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", list(MODELS))
def test_entities_and_relations_without_facts_score(name: str) -> None:
    graph = random_graph(10, 3, 12, 2)
    lonely = KnowledgeGraph(graph.triplets[graph.triplets[:, 1] == 0], graph.entities, graph.relations)
    model = build(name, graph)
    with torch.no_grad():
        scores = model.score_tails(model.encode(lonely), torch.tensor([9, 0]), torch.tensor([2, 5]))
    assert torch.isfinite(scores).all()


@pytest.mark.parametrize("name", list(MODELS))
def test_training_scores_are_differentiable(name: str) -> None:
    graph = random_graph(20, 3, 60, 3)
    model = build(name, graph).train()
    if not list(model.parameters()):
        pytest.skip("has no parameters")
    targets = torch.from_numpy(graph.triplets[:6].astype(np.int64))
    rows = targets[:, None].repeat(1, 3, 1)
    rows[:, 1, 2], rows[:, 2, 2] = 0, 7
    scores = model.training_scores(graph, rows, seed=1)
    assert scores.shape == (6, 3)
    scores.sum().backward()
    assert any(p.grad is not None and bool((p.grad != 0).any()) for p in model.parameters())


class Peeking(LinkPredictor):
    """A cheat: scores by ids."""

    symmetry = Symmetry.EXACT

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> KnowledgeGraph:
        return graph

    def score_triplets(self, encoded: KnowledgeGraph, triplets: torch.Tensor) -> torch.Tensor:
        return (triplets[:, 0] + 0.1 * triplets[:, 1] % encoded.num_relations - triplets[:, 2]).float()


class Constant(Peeking):
    """Symmetric, and worth nothing."""

    def score_triplets(self, encoded: KnowledgeGraph, triplets: torch.Tensor) -> torch.Tensor:
        return torch.ones(len(triplets))


class Drifting(Peeking):
    """Claims symmetry in expectation, but a mean depends on an id."""

    symmetry = Symmetry.IN_EXPECTATION

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> torch.Generator:
        return torch.Generator().manual_seed(seed)

    def score_triplets(self, encoded: torch.Generator, triplets: torch.Tensor) -> torch.Tensor:
        return torch.randn(len(triplets), generator=encoded) + triplets[:, 0]


def test_cheats_are_caught() -> None:
    graph = random_graph(30, 5, 90, 0)
    assert not verify(Peeking(), graph).holds
    assert not verify(Drifting(), graph).holds
    assert verify(Constant(), graph).holds
    assert not separates(Constant(), FORMULA_1, *DIFFERENT[0])
