"""Exports: what was accepted, in formats that others read back."""

import pytest

pytest.importorskip("pyoxigraph")

from anykg.errors import InputError
from anykg.web.decisions import Decision
from anykg.web.exports import FORMATS, export

MADE = [
    Decision("1", "Q142", "P36", "Q90", "accept", "complete", 0.9, "m", "g", "me", "note", "2026-01-02T03:04:05+00:00"),
    Decision("2", "Q183", "P36", "Q64", "accept", "complete", None, "m", "g", "", "", "2026-01-02T03:05:05+00:00"),
]


def test_tsv_is_the_facts() -> None:
    assert export(MADE, "tsv").content == b"Q142\tP36\tQ90\nQ183\tP36\tQ64\n"


def test_nquads_are_parsed_and_say_where_they_come_from() -> None:
    import pyoxigraph

    quads = list(pyoxigraph.parse(export(MADE, "nquads").content, format=pyoxigraph.RdfFormat.N_QUADS))
    assert sum(quad.predicate.value.endswith("P36") for quad in quads) == 2
    assert any(quad.predicate.value.endswith("prov#wasGeneratedBy") for quad in quads)


def test_quickstatements_name_the_heuristic() -> None:
    lines = export(MADE, "quickstatements").content.decode().splitlines()
    assert lines[0].startswith("Q142\tP36\tQ90\tS887\tQ11660")
    with pytest.raises(InputError, match="not from Wikidata"):
        export([Decision("1", "a", "b", "c", "accept", time="2026-01-01")], "quickstatements")


def test_kgx_says_that_a_person_validated_it() -> None:
    header, first, _ = export(MADE, "kgx").content.decode().splitlines()
    row = dict(zip(header.split("\t"), first.split("\t"), strict=True))
    assert (row["subject"], row["object"]) == ("Q142", "Q90")
    assert row["agent_type"] == "manual_validation_of_automated_agent"


def test_nothing_and_what_cannot_be_written_are_said() -> None:
    for format in FORMATS:
        if format == "jsonl":
            assert export([], format).content == b""
        else:
            with pytest.raises(InputError, match="nothing to export"):
                export([], format)
    with pytest.raises(InputError, match="tab or line break"):
        export([Decision("1", "a\tb", "r", "t", "accept")], "tsv")
