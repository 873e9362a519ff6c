"""Section 3.2: InGram generates distributionally double equivariant positional embeddings (Lemma 3.2)."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from anykg.graph.graph import KnowledgeGraph
from anykg.models.ingram.affinity import affinities, relation_graph
from anykg.models.ingram.ingram import Encoded, InGram, build_edges
from graphs import random_graph
from theory.actions import Renamed, act, build, close, move, renamed_graphs, scores, triplets_of, whole

BINS = 10


def from_inputs(model: InGram, graph: KnowledgeGraph, entities: np.ndarray, relations: np.ndarray) -> np.ndarray:
    """Z(., A, V0, R0) [N, R, N]: scores of every triplet from given inputs V0 [N, d] and R0 [2R, d']."""
    with torch.no_grad():
        found = model.represent(build_edges(graph, BINS), *map(torch.from_numpy, (entities, relations)))
        encoded = Encoded(found[0], model.relation_score(found[1][: graph.num_relations]), 1)
        result = model.score_triplets(encoded, torch.from_numpy(triplets_of(graph)))
    n, r = graph.num_entities, graph.num_relations
    return result.numpy().reshape(n, r, n)


def with_inverses(tau: np.ndarray) -> np.ndarray:
    return np.concatenate([tau, tau + len(tau)])


def permuted(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Rows moved with what they belong to."""
    moved = np.empty_like(values)
    moved[order] = values
    return moved


def inputs(graph: KnowledgeGraph, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    sizes = ((graph.num_entities, 4), (2 * graph.num_relations, 4))
    return tuple(random.normal(size=size).astype(np.float32) for size in sizes)  # type: ignore[return-value]


@given(renamed_graphs())
def test_lemma_3_2_the_relation_graph_is_double_equivariant(renamed: Renamed) -> None:
    """Affinities and their bins move with the relations and do not see the entities."""
    graph, _, tau, image = renamed
    both = with_inverses(tau)
    before, after = affinities(graph).toarray(), affinities(image).toarray()
    np.testing.assert_allclose(after[np.ix_(both, both)], before, rtol=1e-9)
    bins = [
        {(int(a), int(b)): int(c) for a, b, c in zip(g.sources, g.targets, g.bins, strict=True)}
        for g in (relation_graph(graph, BINS), relation_graph(image, BINS))
    ]
    assert {(int(both[a]), int(both[b])): c for (a, b), c in bins[0].items()} == bins[1]


@settings(max_examples=25)
@given(renamed_graphs(), st.integers(0, 2**31))
def test_lemma_3_2_coupled_draws_agree(renamed: Renamed, seed: int) -> None:
    """Z((i, k, j), A, V, R) = Z((phi i, tau k, phi j), phi tau A, phi V, tau R): inputs permuted with the graph."""
    graph, phi, tau, image = renamed
    model = build("ingram", graph)
    entities, relations = inputs(graph, seed)
    before = from_inputs(model, graph, entities, relations)
    after = from_inputs(model, image, permuted(entities, phi), permuted(relations, with_inverses(tau)))
    assert close(act(phi, tau, before), after)


@settings(max_examples=25)
@given(renamed_graphs())
def test_lemma_3_2_equal_inputs_make_structural_representations(renamed: Renamed) -> None:
    """With all-ones inputs InGram is exactly double equivariant, as the proof says."""
    graph, phi, tau, image = renamed
    model = build("ingram", graph, inputs="ones")
    assert close(act(phi, tau, whole(model, graph)), whole(model, image))


def test_lemma_3_2_random_inputs_are_sensitive_to_permutations() -> None:
    """The same draw on the renamed graph: other scores."""
    graph = random_graph(8, 3, 20, seed=0)
    phi, tau = np.roll(np.arange(8), 1), np.roll(np.arange(3), 1)
    model = build("ingram", graph)
    assert not close(act(phi, tau, whole(model, graph)), whole(model, graph.relabel(phi, tau)))


def test_lemma_3_2_the_law_of_a_score_does_not_change() -> None:
    """p(Z | A) = p(phi tau Z | phi tau A): the joint law through projections of all scores of a graph."""
    graph = random_graph(6, 3, 6, seed=1)
    random = np.random.default_rng(2)
    phi, tau = random.permutation(6), random.permutation(3)
    model, every, image = build("ingram", graph), triplets_of(graph), graph.relabel(phi, tau)
    moved = move(every, phi, tau)
    before = np.stack([scores(model, graph, every, seed) for seed in range(300)])
    after = np.stack([scores(model, image, moved, 300 + seed) for seed in range(300)])
    before, after = (draws / np.linalg.norm(draws, axis=1, keepdims=True) for draws in (before, after))
    directions = np.concatenate([random.normal(size=(len(every), 8)), np.eye(len(every))], axis=1)
    pairs = zip((before @ directions).T, (after @ directions).T, strict=True)
    assert min(ks_2samp(a, b).pvalue for a, b in pairs) > 1e-5
