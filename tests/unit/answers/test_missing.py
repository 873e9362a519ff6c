"""Whether a question has an answer that the graph does not know."""

from collections.abc import Sequence

import numpy as np
import pytest

import anykg
from anykg.answers.calibrating.missing import chance_for_kind, chance_of_answer, chance_of_first, room_for
from anykg.answers.predict import LIKELY
from anykg.errors import SettingError
from anykg.graph.graph import KnowledgeGraph
from graphs import named


def hospital() -> KnowledgeGraph:
    """Patients lie in wards, which are on floors; each takes some drugs and has one doctor."""
    lines = []
    for i in range(40):
        lines += [f"p{i} lies_in w{i % 4}", f"p{i} takes d{i % 5}", f"p{i} treated_by doc{i % 4}"]
        lines += [f"p{i} takes d{(i + 1) % 5}"] * (i % 2)
    lines += [f"w{i} on floor{i % 2}" for i in range(4)] + [f"doc{i} works_in w{i}" for i in range(4)]
    return named(*lines)


def ids(graph: KnowledgeGraph, *facts: Sequence[str]) -> np.ndarray:
    return np.array(
        [
            [-1 if x == "?" else (graph.relations if i == 1 else graph.entities).index(x) for i, x in enumerate(fact)]
            for fact in facts
        ]
    )


def test_what_no_entity_of_the_kind_has_is_hardly_missing() -> None:
    graph = hospital()
    takes = graph.relations.index("takes")
    patient, floor = (np.array([graph.entities.index(name)]) for name in ("p3", "floor1"))
    relation = np.array([takes])
    assert chance_for_kind(graph, patient, relation)[0] == 1.0
    assert chance_for_kind(graph, floor, relation)[0] <= 0.25
    assert chance_for_kind(graph, patient, relation + graph.num_relations)[0] < 0.1, "nothing takes a patient"
    assert chance_of_answer(graph, ids(graph, ("floor1", "takes", "?")))[0] <= 0.25


def test_a_functional_relation_with_its_answer_has_no_room() -> None:
    graph = hospital()
    facts = ids(graph, ("p3", "treated_by", "doc1"), ("p3", "takes", "d1"), ("doc1", "treated_by", "doc2"))
    room = room_for(graph, facts)
    assert room[0] < 0.05, "p3 has a doctor"
    assert room[1:].tolist() == [1.0, 1.0], "patients take several drugs, and doc1 has no doctor yet"


@pytest.fixture
def asked(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> KnowledgeGraph:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    return hospital()


def test_a_relation_that_is_answered_is_not_another_answer(asked: KnowledgeGraph) -> None:
    found = anykg.predict(asked, head="p3", tail="doc1", calibrated=True, k=10)
    stated = {row["relation"]: row["probability"] for row in found.to_list()}
    assert stated["treated_by"] < 0.05
    for value in stated.values():
        assert value <= 1 - found.summary()["none_of_these"] + 1e-6


def test_a_relation_is_no_likelier_than_its_fact(asked: KnowledgeGraph) -> None:
    """Also between entities that nothing links: hidden facts, from which probabilities are learnt, link theirs."""
    pairs = [(f"p{i}", f"d{(i + 3) % 5}") for i in range(8)] + [("p1", "p2"), ("w1", "d2"), ("doc1", "doc2")]
    found = anykg.predict(asked, questions=[(head, "?", tail) for head, tail in pairs], calibrated=True, k=1)
    first = [row for row in found.to_list() if row["rank"] == 1]
    facts = [(row["head"], row["relation"], row["tail"]) for row in first]
    stated = [row["probability"] for row in anykg.score(asked, facts, calibrated=True).to_list()]
    for row, limit in zip(first, stated, strict=True):
        assert row["probability"] <= max(limit, LIKELY) + 1e-6, row
    unlikely = [row for row in first if row["head"] in {"p1", "w1", "doc1"} and row["tail"] in {"p2", "d2", "doc2"}]
    assert max(row["probability"] for row in unlikely) < 0.1, "no such entities are ever linked"


def test_a_first_answer_is_missing_as_often_as_the_kind_suggests() -> None:
    """Half the people have a car: those without one probably never had one. All but one have a home."""
    lines = [f"a{i} works_at f{i % 3}" for i in range(100)] + [f"a{i} lives_in t{i % 4}" for i in range(1, 100)]
    graph = named(*lines, *(f"a{i} drives c{i % 5}" for i in range(0, 100, 2)))
    car, home = chance_of_answer(graph, ids(graph, ("a1", "drives", "?"), ("a0", "lives_in", "?")))
    assert car == pytest.approx(1 / 9, abs=0.02)  # half lack it, as would a tenth of those who have one
    assert home > 0.9


def test_score_states_little_where_the_only_answer_is_known(asked: KnowledgeGraph) -> None:
    questions = [(f"p{i}", "lies_in", "?") for i in range(6)]
    first = anykg.predict(asked, questions=questions, k=1, calibrated=True).to_polars()
    highest = dict(zip(first["head"], first["probability"], strict=True))
    facts = [(f"p{i}", "lies_in", name) for i in range(6) for name in asked.entities if name.startswith(("w", "d"))]
    facts = [fact for fact in facts if not asked.contains(ids(asked, fact))[0]]
    for row in anykg.score(asked, facts).to_list():
        assert row["probability"] <= highest[row["head"]] + 0.005


def test_entities_like_others_with_a_type_lack_one() -> None:
    people = [
        line for i in range(30) for line in (f"p{i} type person", f"p{i} knows p{(i + 1) % 33}", f"p{i} at s{i % 9}")
    ]
    graph = named(*people, "p30 knows p31", "p31 knows p32", "p32 knows p0", "p30 at s0", "p31 at s1", "p32 at s2")
    asked = np.array([graph.entities.index(name) for name in ("p31", "s3")])
    kind = np.full(2, graph.relations.index("type"))
    assert chance_for_kind(graph, asked, kind)[0] == 1.0
    assert chance_for_kind(graph, asked, kind)[1] < 0.1, "no place has a type"
    chances = chance_of_first(graph, asked, kind, 0.1)
    assert chances[0] > 0.8
    assert chances[1] < 0.01


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1])
def test_all_commands_refuse_the_same_shares(asked: KnowledgeGraph, share: float) -> None:
    for command in (anykg.check, anykg.fit, anykg.complete):
        with pytest.raises(SettingError, match="missing: expected more than 0 and less than 1"):
            command(asked, missing=share)


def test_candidates_are_refused_for_a_whole_fact(asked: KnowledgeGraph) -> None:
    with pytest.raises(SettingError, match="candidates: only applies to questions"):
        anykg.predict(asked, head="p3", relation="lies_in", tail="w3", candidates=["w3"])


def test_the_chance_of_a_first_fact_is_what_hiding_facts_gives() -> None:
    random = np.random.default_rng(0)
    facts = [f"p{i} type person" for i in range(1000)] + [f"s{i} type song" for i in range(1000)]
    facts += [f"p{i} lives_in town{i % 7}" for i in range(1000) if i % 10 < 6]
    whole = named(*facts)
    people, songs = (np.array([whole.entities.index(f"{kind}{i}") for i in range(1000)]) for kind in "ps")
    lives = whole.relations.index("lives_in")
    hidden = (whole.triplets[:, 1] == lives) & (random.random(len(whole)) < 0.1)
    rest = whole.subset(~hidden)
    without = people[~np.isin(people, rest.triplets[rest.triplets[:, 1] == lives, 0])]
    lost = np.isin(without, whole.triplets[hidden, 0]).mean()
    assert chance_of_first(rest, without, np.full(len(without), lives), 0.1) == pytest.approx(lost, abs=0.02)
    assert chance_of_first(rest, songs, np.full(1000, lives), 0.1).max() < 0.001
