"""InGram against weights, inputs and outputs of the public implementation."""

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import load_file

from anykg.graph.graph import KnowledgeGraph
from anykg.models.ingram.affinity import TIE, relation_graph
from anykg.models.ingram.ingram import Edges, Encoded, build_edges, import_ingram_weights
from anykg.models.ingram.segment import arrivals


@pytest.fixture(scope="module")
def golden(golden_dir):
    return dict(np.load(golden_dir / "ingram_DB2YG.npz"))


@pytest.fixture(scope="module")
def graph(data_dir, golden):
    """The observed graph with the ids of the golden file."""
    path = data_dir / "PediaTypes" / "DB2YG-15K-V2-ind" / "observe.txt"
    read = KnowledgeGraph.from_polars(pl.read_csv(path, separator=" ", has_header=False, infer_schema=False))
    ids = (read.entities.ids(golden["entities"].tolist()), read.relations.ids(golden["relations"].tolist()))
    return read.relabel(*(np.argsort(order) for order in ids))


def _dense(rows, columns, values, size):
    matrix = np.full((size, size), -1.0)
    matrix[rows, columns] = values
    return matrix


def test_affinities_are_equal(graph, golden):
    ours, size = relation_graph(graph, 10), 2 * graph.num_relations
    mine = _dense(ours.sources, ours.targets, ours.affinities, size)
    theirs = _dense(*golden["relation_graph"], golden["relation_affinity"], size)
    np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_bins_are_equal_up_to_ties(graph, golden):
    ours, size = relation_graph(graph, 10), 2 * graph.num_relations
    sources, targets, bins = golden["relation_triplets"].T
    theirs = _dense(sources, targets, bins, size)[ours.sources, ours.targets]
    for affinity in np.unique(ours.affinities):
        equal = np.abs(ours.affinities / affinity - 1) <= TIE
        assert (ours.bins[equal] == theirs[equal].min()).all()
    assert (ours.bins == theirs).mean() > 0.95


def test_vectors_and_scores_are_equal(graph, golden, golden_dir):
    model = import_ingram_weights(load_file(golden_dir / "ingram_DB2YG.safetensors"))
    sources, targets, bins = golden["relation_triplets"].T
    edges = Edges(
        build_edges(graph, model.config.bins).entities, arrivals(sources, targets, bins, 2 * graph.num_relations)
    )
    inputs = (torch.from_numpy(golden[name]) for name in ("init_entity", "init_relation"))
    with torch.no_grad():
        entities, relations = model.represent(edges, *inputs)
        torch.testing.assert_close(entities, torch.from_numpy(golden["out_entity"]), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(relations, torch.from_numpy(golden["out_relation"]), rtol=1e-4, atol=1e-4)
        ready = model.relation_score(relations[: graph.num_relations])
        encoded = Encoded(entities, ready, samples=1)
        columns = (
            graph.entities.ids(golden["head"].tolist()),
            graph.relations.ids(golden["relation"].tolist()),
            graph.entities.ids(golden["tail"].tolist()),
        )
        triplets = torch.from_numpy(np.stack(columns, axis=1)).long()
        scores = model.score_triplets(encoded, triplets)
    torch.testing.assert_close(scores, torch.from_numpy(golden["scores"]), rtol=1e-4, atol=1e-4)
