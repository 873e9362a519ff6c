"""Small graphs that tests share."""

import numpy as np
from hypothesis import strategies as st

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.models.nbf.edges import RelationalEdges


def random_graph(entities: int, relations: int, triplets: int, seed: int = 0) -> KnowledgeGraph:
    """Uniform triplets; some entities may have none, some pairs several."""
    random = np.random.default_rng(seed)
    drawn = np.stack(
        [
            random.integers(entities, size=triplets),
            random.integers(relations, size=triplets),
            random.integers(entities, size=triplets),
        ],
        axis=1,
    )
    return KnowledgeGraph(
        drawn,
        Vocabulary("entity", [f"e{i}" for i in range(entities)]),
        Vocabulary("relation", [f"r{i}" for i in range(relations)]),
    )


def edges_of(rows: object, nodes: int, relations: int) -> RelationalEdges:
    """The edges (receiver, relation, sender) of a network."""
    return RelationalEdges(np.array(rows, np.int32).reshape(-1, 3), nodes, relations)


def random_edges(nodes: int, relations: int, count: int, seed: int) -> RelationalEdges:
    """Uniform edges; the last two nodes are isolated."""
    random = np.random.default_rng(seed)
    columns = [random.integers(size, size=count) for size in (max(nodes - 2, 1), relations, max(nodes - 2, 1))]
    return edges_of(np.stack(columns, axis=1), nodes, relations)


@st.composite
def graphs(draw: st.DrawFn, max_entities: int = 12, max_relations: int = 4, min_triplets: int = 0) -> KnowledgeGraph:
    """Random graphs with self-loops, duplicate pairs and isolated entities."""
    entities, relations = draw(st.integers(1, max_entities)), draw(st.integers(1, max_relations))
    count = draw(st.integers(min_triplets, 3 * entities + min_triplets))
    return random_graph(entities, relations, count, draw(st.integers(0, 2**32 - 1)))


def named(*triplets: str) -> KnowledgeGraph:
    """A graph from "head relation tail" lines."""
    return KnowledgeGraph.from_names(*zip(*(line.split() for line in triplets), strict=True))
