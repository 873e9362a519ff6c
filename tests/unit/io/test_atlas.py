"""The embedded graph is small, well formed, and says what is so."""

import gzip
import re
from collections import Counter
from importlib.resources import files

import pytest

FOLDER = files("anykg") / "io" / "embedded"


@pytest.fixture(scope="module")
def lines() -> list[list[str]]:
    text = gzip.decompress((FOLDER / "atlas.tsv.gz").read_bytes()).decode()
    return [line.split("\t") for line in text.splitlines()]


@pytest.fixture(scope="module")
def facts(lines) -> set[tuple[str, ...]]:
    return {tuple(line) for line in lines[1:]}


def test_table_is_well_formed(lines, facts):
    assert lines[0] == ["head", "relation", "tail"]
    assert all(len(line) == 3 and all(field and field == field.strip() for field in line) for line in lines)
    assert lines[1:] == sorted(lines[1:])
    assert len(facts) == len(lines) - 1


def test_file_is_small_and_carries_no_date():
    content = (FOLDER / "atlas.tsv.gz").read_bytes()
    assert len(content) < 60_000
    assert content[4:8] == bytes(4)


def test_there_is_enough_of_it(facts):
    assert len(facts) >= 2_000
    assert len({head for head, relation, _ in facts if relation == "has capital"}) >= 190
    assert min(Counter(relation for _, relation, _ in facts).values()) >= 20


@pytest.mark.parametrize(
    "fact",
    [
        ("France", "borders", "Germany"),
        ("Germany", "borders", "France"),
        ("Japan", "uses currency", "Japanese yen"),
        ("Denmark", "uses currency", "Danish krone"),
        ("Norway", "uses currency", "Norwegian krone"),
        ("Brazil", "official language", "Portuguese"),
        ("Brazil", "on continent", "South America"),
        ("Mexico", "on continent", "North America"),
        ("Kenya", "has capital", "Nairobi"),
        ("Luxembourg", "has capital", "Luxembourg (city)"),
        ("Jamaica", "has capital", "Kingston (Jamaica)"),
        ("Nepal", "lies", "inland"),
        ("Bulgarian", "written in", "Cyrillic script"),
        ("Southern Europe", "part of", "Europe"),
        ("Ireland", "member of", "European Union"),
    ],
)
def test_known_facts(facts, fact):
    assert fact in facts


@pytest.mark.parametrize(
    "fact",
    [("Japan", "borders", "China"), ("Switzerland", "member of", "European Union"), ("Chad", "lies", "by the sea")],
)
def test_known_falsehoods(facts, fact):
    assert fact not in facts


def test_borders_go_both_ways(facts):
    borders = {(head, tail) for head, relation, tail in facts if relation == "borders"}
    assert borders == {(tail, head) for head, tail in borders}
    assert all(head != tail for head, tail in borders)


def test_a_name_means_one_kind_of_thing(facts):
    kinds = {
        "has capital": "city",
        "official language": "language",
        "widely spoken language": "language",
        "uses currency": "currency",
        "in subregion": "subregion",
        "on continent": "continent",
        "in time zone": "time zone",
    }
    found: dict[str, set[str]] = {}
    for head, relation, tail in facts:
        found.setdefault(tail, set()).add(kinds.get(relation, "other" if relation != "borders" else "country"))
        if relation not in {"part of", "written in"}:
            found.setdefault(head, set()).add("country")
    named = {name: kind - {"other"} for name, kind in found.items()}
    assert {name: kind for name, kind in named.items() if len(kind) > 1} == {}


def test_no_city_is_the_capital_of_two_countries(facts):
    cities = Counter(tail for _, relation, tail in facts if relation == "has capital")
    assert max(cities.values()) == 1


def test_description_states_the_true_counts(facts):
    text = (FOLDER / "ATLAS.md").read_text(encoding="utf-8")
    stated = {name.strip(): int(count) for name, count in re.findall(r"^\| ([^|]+) \| (\d+) \|", text, re.MULTILINE)}
    assert stated == Counter(relation for _, relation, _ in facts)
    entities = {end for head, _, tail in facts for end in (head, tail)}
    assert f"{len(facts):,} facts, {len(entities):,} entities" in text
    assert "Open Database License" in text
