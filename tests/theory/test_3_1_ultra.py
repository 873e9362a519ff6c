"""Section 3.1: Ultra generates double equivariant structural representations (Lemma 3.1, step by step)."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from anykg.graph.graph import KnowledgeGraph
from anykg.models.nbf.relation_graph import relation_graph
from graphs import named
from theory.actions import Renamed, act, build, close, move, renamed_graphs, scores, triplets_of, whole

NAMES = ("head-head", "tail-tail", "head-tail", "tail-head")


def links(graph: KnowledgeGraph) -> set[tuple[int, int, int]]:
    """The edges (r1, type, r2) of the relation graph."""
    return {tuple(edge) for edge in graph.derive(relation_graph).triplets.tolist()}


def links_by_definition(graph: KnowledgeGraph) -> set[tuple[int, int, int]]:
    """An edge of a type exists iff some entity is at that end of an r1 triplet and at that end of an r2 triplet."""
    facts = graph.with_inverses().tolist()
    ends = {"head": 0, "tail": 2}
    return {
        (first[1], kind, second[1])
        for kind, name in enumerate(NAMES)
        for first in facts
        for second in facts
        if first[ends[name.split("-")[0]]] == second[ends[name.split("-")[1]]]
    }


def with_inverses(tau: np.ndarray) -> np.ndarray:
    """tau on the 2R relations."""
    return np.concatenate([tau, tau + len(tau)])


@given(renamed_graphs())
def test_lemma_3_1_the_relation_graph_is_the_definition(renamed: Renamed) -> None:
    assert links(renamed.graph) == links_by_definition(renamed.graph)


@given(renamed_graphs())
def test_lemma_3_1_step_2_renaming_entities_leaves_the_relation_graph(renamed: Renamed) -> None:
    graph, phi, tau, _ = renamed
    assert links(graph.relabel(phi, np.arange(len(tau)))) == links(graph)


@given(renamed_graphs())
def test_lemma_3_1_step_3_renaming_relations_renames_the_nodes_of_the_relation_graph(renamed: Renamed) -> None:
    graph, _, tau, image = renamed
    both = with_inverses(tau)
    assert {(int(both[a]), kind, int(both[b])) for a, kind, b in links(graph)} == links(image)


@settings(max_examples=25)
@given(renamed_graphs())
def test_lemma_3_1_step_3_relation_vectors_are_equivariant(renamed: Renamed) -> None:
    """R_r[s] = R_(tau r)[tau s] for every query relation r, and entities play no part."""
    graph, _, tau, image = renamed
    model, both = build("ultra", graph), with_inverses(tau)
    with torch.no_grad():
        queries = torch.arange(graph.num_relations)
        before = model.relation_network(model.encode(graph).relations, queries)
        after = model.relation_network(model.encode(image).relations, torch.from_numpy(tau)[queries])
    assert close(before.numpy(), after[:, both].numpy())


@settings(max_examples=25)
@given(renamed_graphs())
def test_lemma_3_1_steps_4_to_6_triplet_representations_are_double_invariant(renamed: Renamed) -> None:
    graph, phi, tau, image = renamed
    model, every = build("ultra", graph), triplets_of(graph)
    assert close(scores(model, graph, every), scores(model, image, move(every, phi, tau)))


@settings(max_examples=25)
@given(renamed_graphs())
def test_lemma_3_1_step_7_graph_representations_are_double_equivariant(renamed: Renamed) -> None:
    graph, phi, tau, image = renamed
    model = build("ultra", graph)
    assert close(act(phi, tau, whole(model, graph)), whole(model, image))


@pytest.mark.parametrize("aggregation", ["pna", "sum"])
@settings(max_examples=15)
@given(renamed=renamed_graphs())
def test_lemma_3_1_step_1_nbfnet_is_equivariant_to_entities(aggregation: str, renamed: Renamed) -> None:
    """With learned vectors of relations: renaming entities alone moves its scores along."""
    graph, phi, tau, _ = renamed
    model = build("nbfnet", graph, relation_vectors="trained", aggregation=aggregation)
    keep = np.arange(len(tau))
    assert close(act(phi, keep, whole(model, graph)), whole(model, graph.relabel(phi, keep)))


def test_lemma_3_1_is_about_ultra_not_about_nbfnet() -> None:
    """The same network with learned vectors of relations is not equivariant to relations."""
    graph = named("a r b", "b s c", "c s a")
    phi, tau = np.arange(3), np.array([1, 0])
    model = build("nbfnet", graph, relation_vectors="trained")
    assert not close(act(phi, tau, whole(model, graph)), whole(model, graph.relabel(phi, tau)))


def test_lemma_3_1_is_not_met_by_scoring_everything_alike() -> None:
    """Non-isomorphic triplets get different scores."""
    graph = named("a r b", "b s c", "c s a")
    found = whole(build("ultra", graph), graph)
    assert len(np.unique(found.round(6))) > 6
