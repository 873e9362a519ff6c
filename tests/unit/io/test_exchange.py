"""Objects of other libraries, in and out."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anykg.errors import ConfigError, DataError
from anykg.graph.graph import KnowledgeGraph
from anykg.io import exchange
from anykg.io.catalog import as_graph

ROWS = [("a", "knows", "b"), ("b", "knows", "c"), ("c", "likes", "a")]


def facts(graph: KnowledgeGraph) -> set[tuple[str, ...]]:
    return set(graph.to_polars().iter_rows())


GRAPH = KnowledgeGraph.from_names(*zip(*ROWS, strict=True))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


@pytest.mark.parametrize("library", ["pandas", "polars", "networkx", "rdflib", "pyg", "hetero", "pykeen"])
def test_out_and_in_again(library: str) -> None:
    if library in ("rdflib", "pykeen"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    made = getattr(exchange, f"to_{library}")(GRAPH)
    assert facts(as_graph(made)) == set(ROWS)


@given(st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1, max_size=5))
def test_odd_names_survive_networkx_and_torch_geometric(rows: list[tuple[str, str, str]]) -> None:
    graph = KnowledgeGraph.from_names(*([row[i] for row in rows] for i in range(3)))
    assert exchange.from_pyg(exchange.to_pyg(graph)) == graph
    if all(name for row in rows for name in row):
        assert facts(exchange.from_networkx(exchange.to_networkx(graph))) == set(rows)


def test_labels_go_through_networkx_and_rdflib() -> None:
    labelled = KnowledgeGraph(GRAPH.triplets, GRAPH.entities.with_labels({"a": "Anna"}), GRAPH.relations)
    assert exchange.from_networkx(exchange.to_networkx(labelled)).entities.index("Anna") == 0
    pytest.importorskip("rdflib", reason="rdflib is not installed")
    assert exchange.from_rdflib(exchange.to_rdflib(labelled)).entities.find("Anna") is not None


def test_frames_take_the_choices_of_files() -> None:
    frame = pl.DataFrame({"person": [1, 2], "boss": [2, 3], "score": [0.1, 0.9]})
    assert facts(as_graph(frame, columns="person,boss", relation="reports to", where="score > 0.5")) == {
        ("2", "reports to", "3")
    }
    pandas = pd.DataFrame({"head": [1, 2, None], "relation": ["r", "r", "r"], "tail": [2, 3, 4]})
    assert facts(as_graph(pandas)) == {("1", "r", "2"), ("2", "r", "3")}
    with pytest.raises(DataError, match="expected a head in every row"):
        as_graph(pandas, strict=True)


def test_pairs_with_one_relation() -> None:
    assert facts(as_graph([(1, 2), (2, 3)], relation="follows")) == {("1", "follows", "2"), ("2", "follows", "3")}
    with pytest.raises(ConfigError, match="where cannot be given"):
        as_graph([(1, "r", 2)], where="x = 1")
    with pytest.raises(ConfigError, match="only applies to reading"):
        as_graph(GRAPH, relation="r")


class Sequence(dict[str, list[Any]]):
    """A vertex or edge sequence as igraph has it."""

    def attributes(self) -> list[str]:
        return list(self)

    def __len__(self) -> int:
        return 2


class Igraph:
    """What is used of an igraph graph."""

    def __init__(self, names: dict[str, list[Any]], kinds: dict[str, list[Any]]) -> None:
        self.vs, self.es = Sequence(names), Sequence(kinds)

    def get_edgelist(self) -> list[tuple[int, int]]:
        return [(0, 1), (1, 0)]


def test_igraph() -> None:
    named = Igraph({"name": ["a", "b"]}, {"type": ["r", "s"]})
    assert facts(as_graph(named)) == {("a", "r", "b"), ("b", "s", "a")}
    assert facts(as_graph(Igraph({}, {}))) == {("0", "related to", "1"), ("1", "related to", "0")}


def test_hetero_nodes_without_names_say_their_type() -> None:
    import torch
    from torch_geometric.data import HeteroData

    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = 2, 1
    data["user", "bought", "item"].edge_index = torch.tensor([[0, 1], [0, 0]])
    assert facts(as_graph(data)) == {("user/0", "bought", "item/0"), ("user/1", "bought", "item/0")}


def test_pyarrow_is_not_needed() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import pandas as pd, polars as pl\n"
        "from anykg.io.catalog import as_graph\n"
        "from anykg.io.exchange import to_pandas\n"
        "graph = as_graph(pd.DataFrame({'head': ['a'], 'relation': ['r'], 'tail': [1]}))\n"
        "assert len(to_pandas(graph)) == 1 and len(as_graph(graph.to_polars())) == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
