"""Names that may be typos."""

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.similar import MOST_NAMES, Similar, similar_names


def test_rare_names_next_to_frequent_ones_are_found() -> None:
    facts = [(f"person {i}", "works in", "Cardiology") for i in range(20)]
    facts += [
        ("person 3", "works in", "Cardiolgy"),
        ("person 4", "wroks in", "Cardiology"),
        ("person 5", "works in", "Oncology"),
    ]
    facts += [("person 6", "works in", "cardiology")]
    found = similar_names(KnowledgeGraph.from_names(*zip(*facts, strict=True)))
    assert found[0] == Similar("relation", "wroks in", 1, "works in", 23)
    assert {(one.kind, one.name, one.other) for one in found[1:]} == {
        ("entity", "Cardiolgy", "Cardiology"),
        ("entity", "cardiology", "Cardiology"),
    }, "names that differ in digits are no typos, nor are equally frequent ones"


def test_names_that_differ_in_case_or_accents_are_always_found() -> None:
    facts = [("Musée A", "in", "Besançon"), ("Musée B", "in", "Besançon"), ("Musee B", "IN", "Besancon")]
    found = similar_names(KnowledgeGraph.from_names(*zip(*facts, strict=True)))
    assert found == [
        Similar("relation", "IN", 1, "in", 2),
        Similar("entity", "Besancon", 1, "Besançon", 2),
        Similar("entity", "Musee B", 1, "Musée B", 1),
    ]


def test_names_that_differ_in_white_space_are_found() -> None:
    facts = [(f"house {i}", "in", "Bürgerbräu Altberg") for i in range(3)]
    facts += [
        ("house 1", "in", "BürgerbräuAltberg"),
        ("house 2", "in", "Bürgerbräu  Altberg"),
        ("house 1 ", "in", "Hof"),
    ]
    facts += [("house 1 1", "in", "Hof"), ("house 11", "in", "Hof")]
    found = similar_names(KnowledgeGraph.from_names(*zip(*facts, strict=True)))
    assert {(one.name, one.other) for one in found} == {
        ("BürgerbräuAltberg", "Bürgerbräu Altberg"),
        ("Bürgerbräu  Altberg", "Bürgerbräu Altberg"),
        ("house 1 ", "house 1"),
    }, "numbers with a space between them are not one number"


def test_large_vocabularies_are_not_searched() -> None:
    names = [f"entity {i}" for i in range(MOST_NAMES + 1)]
    graph = KnowledgeGraph.from_names(names[:-1], ["relation"] * MOST_NAMES, ["hub with many facts"] * MOST_NAMES)
    assert similar_names(graph) == []
