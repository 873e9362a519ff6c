"""Statistics, on a graph counted by hand and against the published tables."""

import builtins

import numpy as np
import pytest

from anykg.benchmarks.statistics import graph_statistics, plot_degrees, quantile, task_statistics
from anykg.errors import InputError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.task import Task
from anykg.io.catalog import load_task
from anykg.io.datasets import DATASETS

PEDIATYPES = {  # nodes, relations, observed, query, average degree: first graph, second graph
    "DB-WD": ((4906, 144, 17593, 1666, 7.85), (4948, 102, 23888, 2456, 10.65)),
    "DB-YG": ((4795, 64, 13248, 1177, 6.02), (4751, 17, 11327, 973, 5.18)),
    "EN-FR": ((4962, 122, 30876, 3326, 13.79), (4933, 101, 24165, 2485, 10.81)),
    "EN-DE": ((4890, 121, 25177, 2626, 11.37), (4915, 67, 29011, 3100, 13.07)),
}
WIKITOPICS = {
    "art": (10000, 45, 28023, 3113, 6.23),
    "award": (10000, 10, 25056, 2783, 5.57),
    "edu": (10000, 15, 14193, 1575, 3.15),
    "health": (10000, 20, 15337, 1703, 3.41),
    "infra": (10000, 27, 21646, 2405, 4.81),
    "loc": (10000, 35, 80269, 8918, 17.84),
    "org": (10000, 18, 30214, 3357, 6.71),
    "people": (10000, 25, 58530, 6503, 13.01),
    "sci": (10000, 42, 12516, 1388, 2.78),
    "sport": (10000, 20, 46717, 5190, 10.38),
    "tax": (10000, 31, 19416, 2157, 4.32),
}
LARGE = {"fb15k-237": (14541, 237, 272115, 20466), "nell-995": (74536, 200, 149678, 2818)}


@pytest.fixture(scope="module")
def graph():
    """A loop at d; edges both ways between a and b (two of them one way) and between b and c; one way c to d."""
    facts = ["a r b", "a s b", "b r a", "b r c", "c s b", "c r d", "d r d"]
    return KnowledgeGraph.from_names(*zip(*(fact.split() for fact in facts), strict=True))


def columns(row):
    return (row.entities, row.relations, row.observed_facts, row.asked_facts)


def assert_published(row, published):
    assert columns(row) == published[:4]
    assert row.average_degree == pytest.approx(published[4], abs=0.02)


def test_statistics_by_hand(graph):
    row = graph_statistics("small", graph)
    assert columns(row) == (4, 2, 7, 0)
    assert row.average_degree == 14 / 4
    assert row.share_with_fact_back == 5 / 7
    assert row.mutual_pairs == 2
    assert row.in_degrees.tolist() == [0, 2, 1, 1]  # a 1, b 3, c 1, d 2
    assert row.out_degrees.tolist() == [0, 1, 3]  # a 2, b 2, c 2, d 1
    assert row.as_json()["out_degrees"] == [0, 1, 3]


def test_names_without_triplets_do_not_count(graph):
    assert columns(graph_statistics("one", graph.subset([0]), graph.subset([1]))) == (2, 2, 1, 1)


def test_triplets_beside_add_only_their_nodes_and_relations(graph):
    only_a_b = graph.subset(graph.triplets[:, 2] == graph.entities.index("b"))
    beside = graph.subset([len(graph) - 1])  # the loop at d
    task = Task("small", train=only_a_b, valid=beside, observed=only_a_b, test=graph.subset([]))
    (row,) = task_statistics(task)
    assert columns(row) == (4, 2, 3, 0)
    assert row.in_degrees.tolist() == [3, 0, 0, 1]


def test_an_empty_graph_has_no_degree(graph):
    row = graph_statistics("empty", graph.subset([]))
    assert columns(row) == (0, 0, 0, 0)
    assert (row.average_degree, row.share_with_fact_back, row.mutual_pairs) == (0, 0, 0)
    assert quantile(row.in_degrees, 0.5) == 0


def test_quantile():
    counts = np.array([5, 0, 4, 1])  # five nodes of degree 0, four of 2, one of 3
    assert [quantile(counts, share) for share in (0.5, 0.51, 0.9, 1.0)] == [0, 2, 2, 3]


@pytest.mark.parametrize("name", PEDIATYPES)
def test_pediatypes_as_published(data_dir, name):
    for row, published in zip(task_statistics(load_task(name, data_dir)), PEDIATYPES[name], strict=True):
        assert_published(row, published)


@pytest.mark.parametrize("topic", WIKITOPICS)
def test_wikitopics_as_published(data_dir, topic):
    _, inference = task_statistics(load_task(f"wikitopics:{topic}", data_dir))
    assert_published(inference, WIKITOPICS[topic])


@pytest.mark.parametrize("name", LARGE)
def test_large_graphs_as_published(data_dir, name):
    (row,) = task_statistics(load_task(name, data_dir))
    assert columns(row) == LARGE[name]


@pytest.mark.parametrize("name", [row.name for row in DATASETS if row.source and row.name != "yago3-10"])
def test_the_catalog_tells_the_size_of_the_files(data_dir, name):
    row = next(row for row in DATASETS if row.name == name)
    assert columns(task_statistics(load_task(name, data_dir))[-1]) == row.size


@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_plot(graph, tmp_path, ending, magic):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"degrees.{ending}"
    plot_degrees([graph_statistics("one", graph), graph_statistics("two", graph)], path)
    assert path.read_bytes().startswith(magic)
    assert list(tmp_path.iterdir()) == [path]


def test_plot_refuses_other_endings(graph, tmp_path):
    with pytest.raises(InputError, match=r"\.png or \.svg"):
        plot_degrees([graph_statistics("one", graph)], tmp_path / "degrees.pdf")


def test_plot_without_matplotlib_names_the_extra(graph, tmp_path, monkeypatch):
    real = builtins.__import__

    def refuse(name, *arguments, **keywords):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InputError, match=r"anykg\[plot\]"):
        plot_degrees([graph_statistics("one", graph)], tmp_path / "degrees.png")
