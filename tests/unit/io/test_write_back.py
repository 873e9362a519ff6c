"""Predictions as files that other tools take."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pyoxigraph
import pytest

from anykg.errors import ConfigError, DataError
from anykg.io.read import read_graph
from anykg.io.write_back.origin import Origin
from anykg.io.write_back.write import read_answers, write_back

WD = "http://www.wikidata.org/entity/"
ANSWERS = pl.DataFrame(
    {
        "head": [f"{WD}Q42", "New York", f"{WD}Q42"],
        "relation": [f"{WD}P69", "in", "http://www.w3.org/2004/02/skos/core#exactMatch"],
        "tail": [f"{WD}Q5", "USA", "http://purl.obolibrary.org/obo/MONDO_0000001"],
        "score": [1.5, 0.5, 3.0],
        "probability": [0.9, 0.25, 1.0],
    }
)
ORIGIN = Origin(model="tester", date="2026-01-02T03:04:05Z")


def write(path: Path, **options: object) -> list[str]:
    write_back(ANSWERS, path, origin=ORIGIN, **options)  # type: ignore[arg-type]
    return path.read_text(encoding="utf-8").splitlines()


def test_nquads_with_provenance(tmp_path: Path) -> None:
    path = tmp_path / "new.nq"
    write(path)
    quads = list(pyoxigraph.parse(path=path, format=pyoxigraph.RdfFormat.N_QUADS))
    assert {str(quad.graph_name) for quad in quads} == {"<urn:anykg:predictions>"}
    predicates = {quad.predicate.value.rsplit("#")[-1].rsplit(":")[-1] for quad in quads}
    assert {"wasGeneratedBy", "wasAssociatedWith", "endedAtTime", "score", "probability"} <= predicates
    assert ("New York", "in", "USA") in set(read_graph(path).to_polars().iter_rows())


@pytest.mark.parametrize("accepted", [False, True])
def test_rdf12_reifies_and_asserts_only_what_was_accepted(tmp_path: Path, accepted: bool) -> None:
    path = tmp_path / "new.ttl"
    answers = ANSWERS.with_columns(decision=pl.lit("accepted"))
    write_back(answers, path, origin=Origin(accepted=accepted, date="2026-01-02T03:04:05Z"))
    quads = list(pyoxigraph.parse(path=path, format=pyoxigraph.RdfFormat.TURTLE))
    reified = [quad for quad in quads if isinstance(quad.object, pyoxigraph.Triple)]
    assert len(reified) == 3
    asserted = {(quad.subject, quad.predicate, quad.object) for quad in quads}
    terms = [(quad.object.subject, quad.object.predicate, quad.object.object) for quad in reified]
    assert all((term in asserted) == accepted for term in terms)
    numbers = [quad.object.value for quad in quads if quad.predicate.value == "urn:anykg:terms:probability"]
    assert sorted(map(float, numbers)) == [0.25, 0.9, 1.0]


def test_quickstatements(tmp_path: Path) -> None:
    assert write(tmp_path / "new.qs") == ["Q42\tP69\tQ5\tS887\tQ11660\tS813\t+2026-01-02T00:00:00Z/11"]
    written = write_back(ANSWERS, tmp_path / "new.qs", origin=ORIGIN, dry_run=True)
    assert (written.rows, written.skipped) == (1, {"rows with names that are not from Wikidata": 2})


def test_kgx_edges_are_read_back(tmp_path: Path) -> None:
    header, *rows = write(tmp_path / "new_edges.tsv")
    assert "knowledge_level\tagent_type" in header
    assert "prediction\tcomputational_model\ttester\t0.9\t2026-01-02" in rows[0]
    expected = set(ANSWERS.select("head", "relation", "tail").iter_rows())
    assert set(read_graph(tmp_path / "new_edges.tsv").to_polars().iter_rows()) == expected


def test_sssom_takes_mappings_only(tmp_path: Path) -> None:
    lines = write(tmp_path / "new.sssom.tsv")
    assert "#  MONDO: http://purl.obolibrary.org/obo/MONDO_" in lines
    assert lines[-1].startswith(f"{WD}Q42\tskos:exactMatch\tMONDO:0000001\tsemapv:UnspecifiedMatching\t1.0\ttester")
    with pytest.raises(DataError, match=r"nothing to write as sssom .1 rows whose relation is not a mapping"):
        write_back(ANSWERS[:1], tmp_path / "none.sssom.tsv")


def test_a_folder_for_neo4j_admin(tmp_path: Path) -> None:
    written = write_back(ANSWERS, tmp_path / "import", origin=ORIGIN)
    assert written.format == "neo4j"
    graph = read_graph(tmp_path / "import")
    assert ("New York", "PREDICTED_in", "USA") in set(graph.to_polars().iter_rows())


def test_answers_of_every_kind_of_file(tmp_path: Path) -> None:
    rows = ANSWERS.with_columns(known=pl.Series([False, True, False]))
    rows.write_csv(tmp_path / "a.tsv", separator="\t")
    rows.write_parquet(tmp_path / "a.parquet")
    rows.write_ndjson(tmp_path / "a.jsonl")
    (tmp_path / "a.json").write_text(json.dumps({"model": "small", "rows": rows.to_dicts()}))
    for name in ("a.tsv", "a.parquet", "a.jsonl", "a.json"):
        table, model = read_answers(tmp_path / name, ("score >= 1",))
        assert table["tail"].to_list() == [f"{WD}Q5", "http://purl.obolibrary.org/obo/MONDO_0000001"]
        assert model == ("small" if name == "a.json" else None)
    (tmp_path / "b.tsv").write_text("x\ty\n1\t2\n")
    with pytest.raises(DataError, match="head, relation, tail is not among x, y"):
        read_answers(tmp_path / "b.tsv")


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a name ending in \.nq"):
        write_back(ANSWERS, tmp_path / "new.docx")
    with pytest.raises(ConfigError, match="Expected a format of nquads"):
        write_back(ANSWERS, tmp_path / "new.nq", format="docx")
    with pytest.raises(ConfigError, match="found postgresql") as caught:
        write_back(ANSWERS, "postgresql://me:hidden@localhost/kg")
    assert "hidden" not in str(caught.value)
    with pytest.raises(ConfigError, match="a column `decision`"):
        write_back(ANSWERS, tmp_path / "new.nq", origin=Origin(accepted=True))
