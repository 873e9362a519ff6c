"""Section 2.3: distributionally double equivariant positional embeddings."""

from collections import Counter
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import ks_2samp

from anykg.graph.graph import KnowledgeGraph
from graphs import named, random_graph
from theory.actions import Renamed, act, adjacency, build, close, move, renamed_graphs, scores, triplets_of

Outcome = tuple[int, ...]
"""An embedding Z [N, R, N] of whole numbers, flattened so that it can be counted."""


def embed(graph: KnowledgeGraph, positions: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """A positional embedding: what a triplet looks like where entities and relations are at given positions.

    Not equivariant: it reads the positions. Z[i, k, j] mixes them with the graph.
    """
    found = adjacency(graph)
    weight = found.sum((0, 1)) + 1  # facts that arrive, so that Z depends on the graph
    z = 100 * positions[:, None, None] + 10 * kinds[None, :, None] + positions[None, None, :]
    return (1 + found) * z * weight[:, None, None]


def distribution(graph: KnowledgeGraph, biased: bool = False) -> dict[Outcome, Fraction]:
    """p(Z | A), exactly: positions are a uniform permutation, or one that prefers the identity."""
    n, r = graph.num_entities, graph.num_relations
    mass: Counter[Outcome] = Counter()
    for positions, kinds in product(permutations(range(n)), permutations(range(r))):
        weight = 2 if biased and positions == tuple(range(n)) else 1
        mass[tuple(embed(graph, np.array(positions), np.array(kinds)).ravel())] += weight
    total = sum(mass.values())
    return {outcome: Fraction(count, total) for outcome, count in mass.items()}


def moved_by(renamed: Renamed, p: dict[Outcome, Fraction]) -> dict[Outcome, Fraction]:
    """The distribution of phi tau Z."""
    shape = adjacency(renamed.graph).shape
    return {tuple(act(renamed.phi, renamed.tau, np.array(z).reshape(shape)).ravel()): q for z, q in p.items()}


def mean(p: dict[Outcome, Fraction], shape: tuple[int, ...]) -> np.ndarray:
    """E[Z | A]."""
    return sum(float(q) * np.array(z, float) for z, q in p.items()).reshape(shape)  # type: ignore[union-attr]


@settings(max_examples=40)
@given(renamed_graphs(max_entities=4, max_relations=2))
def test_definition_2_7_uniform_positions_are_distributionally_double_equivariant(renamed: Renamed) -> None:
    """p(Z | A) = p(phi tau Z | phi tau A), outcome by outcome."""
    assert moved_by(renamed, distribution(renamed.graph)) == distribution(renamed.image)


BENT = named("a r b", "b s c")
BENT_BY = Renamed(BENT, p := np.array([1, 2, 0]), t := np.array([1, 0]), BENT.relabel(p, t))


def test_definition_2_7_biased_positions_are_not() -> None:
    assert moved_by(BENT_BY, distribution(BENT, biased=True)) != distribution(BENT_BY.image, biased=True)


def test_definition_2_7_a_single_draw_is_permutation_sensitive() -> None:
    positions, kinds = np.arange(3), np.arange(2)
    assert not close(act(p, t, embed(BENT, positions, kinds)), embed(BENT_BY.image, positions, kinds))


@settings(max_examples=40)
@given(renamed_graphs(max_entities=4, max_relations=2))
def test_theorem_2_8_the_mean_is_a_double_equivariant_representation(renamed: Renamed) -> None:
    graph, phi, tau, image = renamed
    shape = adjacency(graph).shape
    assert close(act(phi, tau, mean(distribution(graph), shape)), mean(distribution(image), shape))


def test_theorem_2_8_needs_definition_2_7() -> None:
    first, second = (mean(distribution(g, biased=True), (3, 2, 3)) for g in (BENT, BENT_BY.image))
    assert not close(act(p, t, first), second)


# -- models that draw their inputs ------------------------------------------------------------------------------

DRAWING = ("ingram", "nbfnet", "rmpi")
DRAWS = 300
LEVEL = 1e-4
"""Of the smallest of the p-values: about one in a thousand by chance for the 24 comparisons of a model."""


def standardised(draws: np.ndarray) -> np.ndarray:
    """Scores [draws, B] relative to the others of their draw: what all of them share hides what ids would do."""
    return (draws - draws.mean(1, keepdims=True)) / draws.std(1, keepdims=True)


@pytest.mark.parametrize("name", DRAWING)
def test_definition_2_7_models_that_draw_vectors_have_equal_marginals(name: str) -> None:
    """Scores of a triplet over independent draws follow one law before and after renaming: Kolmogorov-Smirnov."""
    graph = random_graph(8, 4, 8, seed=3)
    random = np.random.default_rng(5)
    phi, tau = random.permutation(8), random.permutation(4)
    model = build(name, random_graph(8, 3, 20, seed=4))  # trained on other relations: all vectors are drawn
    asked = random.choice(triplets_of(graph), 12, replace=False)
    image, moved = graph.relabel(phi, tau), move(asked, phi, tau)
    before = np.stack([scores(model, graph, asked, seed) for seed in range(DRAWS)])
    after = np.stack([scores(model, image, moved, DRAWS + seed) for seed in range(DRAWS)])
    for one, other in ((before, after), (standardised(before), standardised(after))):
        assert min(ks_2samp(a, b).pvalue for a, b in zip(one.T, other.T, strict=True)) > LEVEL
    assert not close(before[0], scores(model, image, moved, 0))  # one draw is not equivariant
    error = np.sqrt((before.var(0, ddof=1) + after.var(0, ddof=1)) / DRAWS)
    assert np.all(np.abs(before.mean(0) - after.mean(0)) <= 5 * error + 1e-9)  # Theorem 2.8


def test_definition_2_7_the_two_sample_test_can_fail() -> None:
    """The same comparison notices draws whose spread depends on an id."""
    random = np.random.default_rng(0)
    before, after = random.normal(scale=1.0, size=DRAWS), random.normal(scale=4.0, size=DRAWS)
    assert ks_2samp(before, after).pvalue < LEVEL
