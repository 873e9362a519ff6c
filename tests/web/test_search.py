"""Search finds what people type, in the order they expect."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.web.search import SearchIndex, entity_index

NAMES = ["Kosovo", "Kosovo Polje", "North Kosovo", "Akosovoa", "Zürich", "São Tomé", "a (b)", "Q42", ""]


def index_of(names: list[str], labels: list[str | None] | None = None) -> SearchIndex:
    return SearchIndex(Vocabulary("entity", names, labels), np.arange(len(names)))


def found(index: SearchIndex, query: str) -> list[int]:
    return index.search(query, limit=100).ids.tolist()


def test_same_then_start_then_word_then_inside() -> None:
    assert found(index_of(NAMES), "KOSOVO") == [0, 1, 2, 3]


@pytest.mark.parametrize(("query", "first"), [("zurich", 4), ("ZÜR", 4), ("sao tome", 5), ("(b", 6), ("kosvo", 0)])
def test_case_accents_and_spelling_do_not_matter(query: str, first: int) -> None:
    assert found(index_of(NAMES), query)[0] == first


def test_only_similar_spellings_say_so() -> None:
    assert index_of(NAMES).search("kosvoo").similar
    assert not index_of(NAMES).search("kosovo").similar
    assert found(index_of(NAMES), "xyz nothing") == []


def test_labels_are_found_beside_names() -> None:
    index = index_of(["Q1", "Q2"], ["Douglas Adams", None])
    assert found(index, "adams") == [0]
    assert found(index, "q2") == [1]


def test_pages_follow_each_other() -> None:
    index = index_of([f"name {i}" for i in range(50)])
    pages = [index.search("name", offset=offset, limit=20) for offset in (0, 20, 40, 60)]
    assert [len(page.ids) for page in pages] == [20, 20, 10, 0]
    assert {page.total for page in pages} == {50}
    assert sorted(np.concatenate([page.ids for page in pages]).tolist()) == list(range(50))


def test_an_empty_query_lists_the_best_connected_first() -> None:
    graph = KnowledgeGraph.from_names(["a", "b", "c"], ["r"] * 3, ["hub"] * 3)
    assert entity_index(graph).search("").ids[0] == graph.entities.index("hub")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=12), unique=True, min_size=1, max_size=12), st.text(max_size=12))
def test_any_text_can_be_searched(names: list[str], query: str) -> None:
    names = [name for name in names if not any("\ud800" <= c <= "\udfff" for c in name)] or ["x"]
    ids = found(index_of(names), query)
    assert len(set(ids)) == len(ids)
    for name in names:
        if len(name.strip()):
            assert names.index(name) in found(index_of(names), name)
