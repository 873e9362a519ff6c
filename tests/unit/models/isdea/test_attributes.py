"""ISDEA+ with attributes of entities as h^0: the equations, symmetry, and what is read from a table."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import polars as pl
import pytest
import torch

from anykg import read_graph
from anykg.answers.train import train
from anykg.answers.work import Subject, _spec
from anykg.errors import ConfigError, DataError
from anykg.graph.attributes import attribute_names, attribute_values
from anykg.graph.graph import KnowledgeGraph
from anykg.io.pack import write_pack
from anykg.models.isdea import reference
from anykg.models.isdea.isdea import ISDEA, ISDEAConfig
from anykg.models.store import load_model
from anykg.testing.graphs import random_graph


def described(seed: int = 0) -> KnowledgeGraph:
    graph = random_graph(8, 3, 24, seed)
    random = np.random.default_rng(seed)
    table = pl.DataFrame(
        {
            "id": list(graph.entities),
            "size": random.normal(size=8),
            "kind": [["city", "person"][i % 2] for i in range(8)],
        }
    )
    return KnowledgeGraph(graph.triplets, graph.entities.with_attributes(table, "id"), graph.relations)


def every_triplet(graph: KnowledgeGraph) -> torch.Tensor:
    n, r = graph.num_entities, graph.num_relations
    return torch.cartesian_prod(torch.arange(n), torch.arange(r), torch.arange(n))


def test_numbers_are_standardised_and_texts_are_one_hot() -> None:
    table = pl.DataFrame({"name": ["a", "b", "c"], "size": [1.0, 3.0, None], "kind": ["x", "x", "y"]})
    graph = KnowledgeGraph.from_names(["a", "b"], ["r", "r"], ["d", "c"])
    graph = KnowledgeGraph(graph.triplets, graph.entities.with_attributes(table, "name"), graph.relations)
    assert attribute_names(graph) == ["size", "kind=x"]  # one entity is no kind
    found = dict(
        zip(graph.entities, attribute_values(graph, ("size", "kind=x", "kind=z", "age")).tolist(), strict=True)
    )
    half = 0.5**0.5
    assert found["a"] == pytest.approx([-half, 1, 0, 0])
    assert found["b"] == pytest.approx([half, 1, 0, 0])
    assert found["c"] == found["d"] == [0, 0, 0, 0]
    other = table.with_columns(size=2 * pl.col("size"), kind=pl.Series(["x|y", "x|y", "y"]))
    other_graph = KnowledgeGraph(graph.triplets, graph.entities.with_attributes(other, "name"), graph.relations)
    assert other_graph.digest != graph.digest, "what is kept for one is not used for the other"
    assert attribute_names(other_graph) == ["size"], "a model's settings join names by |"


@pytest.mark.parametrize("aggregation", ["sum", "mean"])
def test_scores_follow_attributes_and_only_them(aggregation: str) -> None:
    graph = described()
    torch.manual_seed(0)
    model = ISDEA.build(ISDEAConfig(aggregation=aggregation), graph)  # type: ignore[arg-type]
    assert model.config.attributes == ("size", "kind=city", "kind=person")
    rows = every_triplet(graph)
    with torch.no_grad():
        scores = model.score_triplets(model.encode(graph), rows)
        if aggregation == "sum":
            torch.testing.assert_close(scores, reference.scores(model, graph, rows), rtol=1e-4, atol=1e-5)
        entity, relation = (np.random.default_rng(1).permutation(count) for count in (8, 3))
        moved = graph.relabel(entity, relation)
        there = torch.stack(
            [torch.from_numpy(p)[column] for p, column in zip((entity, relation, entity), rows.T, strict=True)], dim=1
        )
        torch.testing.assert_close(model.score_triplets(model.encode(moved), there), scores, rtol=1e-4, atol=1e-5)
        model.weights["inputs"].zero_()
        plain = ISDEA(ISDEAConfig(aggregation=aggregation))  # type: ignore[arg-type]
        plain.load_state_dict({name: value for name, value in model.state_dict().items() if "inputs" not in name})
        assert not torch.allclose(scores, plain.score_triplets(plain.encode(graph), rows), atol=1e-4)
        torch.testing.assert_close(
            model.score_triplets(model.encode(graph), rows), plain.score_triplets(plain.encode(graph), rows)
        )


def test_a_table_beside_the_facts_is_read_and_learnt_from(tmp_path: Path) -> None:
    facts, nodes = tmp_path / "facts.tsv", tmp_path / "nodes.csv"
    facts.write_text("".join(f"p{i}\tknows\tp{(i + 1) % 12}\np{i}\tlikes\tp{(i * 5) % 12}\n" for i in range(12)))
    nodes.write_text("id,age,town\n" + "".join(f"p{i},{20 + i},t{i % 3}\n" for i in range(11)))
    graph = read_graph(facts, attributes=nodes)
    assert attribute_names(graph) == ["age", "town=t0", "town=t1", "town=t2"]
    train("isdea+", facts, out=tmp_path / "model", epochs=1, reading={"attributes": nodes})
    model = load_model(tmp_path / "model")
    assert model.config.attributes == ("age", "town=t0", "town=t1", "town=t2")
    with pytest.raises(DataError, match="give a table of them with `attributes`"):
        model.score_triplets(model.encode(read_graph(facts)), torch.tensor([[0, 0, 1]]))
    with pytest.raises(DataError, match="a packed graph cannot have attributes"):
        write_pack(graph, tmp_path / "facts.anykg")
    with pytest.raises(ConfigError, match="attributes of entities are not sent to workers"):
        _spec(Subject(graph, model), Mock())
    nodes.write_text("id,age\nnobody,1\n")
    with pytest.raises(DataError, match="expected a column of entities of the graph, such as 'p0'"):
        read_graph(facts, attributes=nodes)
