"""RDF: terms as names and back, literals, labels, blank nodes, syntax errors."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anykg.errors import DataError
from anykg.graph.graph import KnowledgeGraph
from anykg.io.rdf import from_store, name_of, term_of, to_store
from anykg.io.read import read_graph, read_with_report

TURTLE = """@prefix : <http://x/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:a :knows :b , [ :knows :c ] ; :age 7 ; rdfs:label "Anna"@fr , "Ann"@en , "A" .
_:someone :knows [ :knows :a ] .
:knows rdfs:label "knows" .
"""


def put(folder: Path, content: str, name: str) -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def test_turtle(tmp_path: Path) -> None:
    graph, report = read_with_report(put(tmp_path, TURTLE, "facts.ttl"))
    assert (report.format, report.triplets, report.literals, report.labels) == ("ttl", 5, 1, 2)
    assert set(graph.relations) == {"http://x/knows"}
    assert {"_:someone", "_:b0", "_:b1", "http://x/a"} <= set(graph.entities)
    assert graph.entities.label(graph.entities.index("http://x/a")) == "Ann"
    assert graph.relations.index("knows") == 0
    assert "1 statements about literals" in report.lines()[-1]


def test_nameless_nodes_are_numbered_in_order_and_keep_their_labels(tmp_path: Path) -> None:
    nodes = "".join(f'[ rdfs:label "{i}" ; :knows :a ] :knows :a .\n' for i in range(300))
    graph = read_graph(put(tmp_path, TURTLE[: TURTLE.index(":a")] + nodes, "facts.ttl"))
    assert {name: graph.entities.label(graph.entities.index(name)) for name in graph.entities} == {
        "http://x/a": "http://x/a"
    } | {f"_:b{i}": str(i) for i in range(300)}


def test_names_of_nodes_in_ntriples_are_kept_however_they_look(tmp_path: Path) -> None:
    name = "_:ddf8a63b8c9f4e014dcd1feece047bbe"
    assert name in read_graph(put(tmp_path, f"{name} <http://p> <http://b> .\n", "facts.nt")).entities


def test_numbers_of_nameless_nodes_do_not_meet_given_names(tmp_path: Path) -> None:
    text = "@prefix : <http://x/> .\n_:b0 :p [ :p :a ] . _:b2 :p [ :p :c ] .\n"
    graph = read_graph(put(tmp_path, text, "facts.ttl"))
    assert {name for name in graph.entities if name.startswith("_:")} == {"_:b0", "_:b1", "_:b2", "_:b3"}


def test_literals_can_be_kept(tmp_path: Path) -> None:
    text = '<http://a> <http://p> "x y"@en .\n<http://a> <http://p> "7"^^<http://int> .\n'
    graph, report = read_with_report(put(tmp_path, text, "facts.nt"), literals="keep")
    assert set(graph.entities) == {"http://a", '"x y"@en', '"7"^^<http://int>'}
    assert report.literals == 0


def test_only_literals_is_an_error_that_names_the_way_out(tmp_path: Path) -> None:
    path = put(tmp_path, '<http://a> <http://p> "x" .\n', "facts.nt")
    with pytest.raises(DataError, match=r"1 statements about literals were left out.*literals='keep'"):
        read_graph(path)


@pytest.mark.parametrize(
    ("name", "text", "format"),
    [
        ("facts.nt", "_:b0 <http://p> <http://b> .\n", "nt"),
        ("facts", "_:b0 <http://p> <http://b> .\n", "nt"),
        ("facts.txt", "_:b0 <http://p> <http://b> <http://g> .\n", "nq"),
        ("facts.nq", "_:b0 <http://p> <http://b> <http://g> .\n", "nq"),
        ("facts.data", "@prefix : <http://> .\n_:b0 :p :b .\n", "ttl"),
        (
            "facts.rdf",
            '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="http://">'
            '<rdf:Description rdf:nodeID="b0"><x:p rdf:resource="http://b"/></rdf:Description></rdf:RDF>',
            "rdf",
        ),
    ],
)
def test_formats_by_extension_then_by_content(tmp_path: Path, name: str, text: str, format: str) -> None:
    graph, report = read_with_report(put(tmp_path, text, name))
    assert report.format == format
    assert graph.to_polars().rows() == [("_:b0", "http://p", "http://b")]


def test_compressed(tmp_path: Path) -> None:
    path = tmp_path / "facts.nt.gz"
    path.write_bytes(gzip.compress(b"<http://a> <http://p> <http://b> .\n"))
    assert read_graph(path).num_triplets == 1


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("facts.nt", "<http://a> <http://p> <http://b> .\n<http://a> oops\n", r"facts.nt:2: this is not N-Triples"),
        ("facts.nt", "a\tb\tc\n", r"facts.nt:1: this is not N-Triples"),
        ("facts.ttl", "@prefix : <http://x/> .\n\n:a :p ;;\n", r"facts.ttl:\d: this is not Turtle"),
        ("facts.rdf", "a b c", r"facts.rdf.*: this is not RDF/XML"),
    ],
)
def test_bad_syntax_names_the_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_graph(put(tmp_path, text, name))
    assert "\n" not in str(caught.value)


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8) | st.sampled_from(
    ["_:b0", "_:é", "_:not a node", "http://x/a", "http://x/a b", "urn:anykg:a%20b", "a:b", '"x"@en', "%41"]
)


@given(name=NAMES, relation=st.booleans())
def test_names_become_terms_and_come_back(name: str, relation: bool) -> None:
    pyoxigraph = pytest.importorskip("pyoxigraph")
    line = f"<http://a> {term_of(name, True)} <http://b> ." if relation else f"<http://a> <http://p> {term_of(name)} ."
    (quad,) = pyoxigraph.parse(line, format=pyoxigraph.RdfFormat.N_TRIPLES)
    assert name_of(quad.predicate if relation else quad.object) == name


@given(rows=st.lists(st.tuples(NAMES, NAMES, NAMES), max_size=6))
def test_a_store_gives_back_the_facts(rows: list[tuple[str, str, str]]) -> None:
    graph = KnowledgeGraph.from_names(*([row[i] for row in rows] for i in range(3)))
    assert set(from_store(to_store(graph)).to_polars().iter_rows()) == set(rows)


def test_a_store_keeps_labels() -> None:
    graph = KnowledgeGraph.from_names(["Q1"], ["P1"], ["Q2"])
    labelled = KnowledgeGraph(
        graph.triplets,
        graph.entities.with_labels({"Q1": 'the "first"\n'}),
        graph.relations.with_labels({"P1": "part of"}),
    )
    back = from_store(to_store(labelled))
    assert back.entities.label(back.entities.index("Q1")) == 'the "first"\n'
    assert back.entities.label(back.entities.index("Q2")) == "Q2"
    assert back.relations.label(0) == "part of"


def test_a_store_is_read_without_literals_and_over_all_graphs() -> None:
    pyoxigraph = pytest.importorskip("pyoxigraph")
    store = pyoxigraph.Store()
    a, b, p, g = (pyoxigraph.NamedNode(f"http://{x}") for x in "abpg")
    store.add(pyoxigraph.Quad(a, p, b, g))
    store.add(pyoxigraph.Quad(a, p, pyoxigraph.Literal("x")))
    assert from_store(store).to_polars().rows() == [("http://a", "http://p", "http://b")]
