"""Questions and answers by name."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anykg
from anykg.answers.predict import predict
from anykg.answers.questions import Question, Skipped, as_questions, read_name_list, read_questions
from anykg.errors import CheckpointError, ConfigError, InputError, SettingError, UnknownName
from anykg.evaluation.ranking import best_answers, top
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.models.base import LinkPredictor, Symmetry
from anykg.models.store import load_model
from graphs import graphs, named

GRAPH = named("anna knows ben", "ben knows carl", "anna likes carl", "carl likes carl")


class ByName(LinkPredictor):
    """Scores by the order of names, so that answers can be read off."""

    symmetry = Symmetry.ENTITIES_ONLY
    asked = 0

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> KnowledgeGraph:
        return graph

    def score_triplets(self, encoded: KnowledgeGraph, triplets: torch.Tensor) -> torch.Tensor:
        self.asked += len(triplets)
        return -(triplets[:, 2] + 10.0 * (triplets[:, 1] % encoded.num_relations))


def ask(**asked: object) -> list[tuple[object, ...]]:
    return predict(GRAPH, model=ByName(), **asked).to_polars().rows()  # type: ignore[arg-type]


def test_three_kinds_of_question() -> None:
    assert [row[2] for row in ask(head="anna", relation="knows")] == ["carl"]
    assert [row[0] for row in ask(relation="knows", tail="carl")] == ["anna"]
    assert [row[1] for row in ask(head="ben", tail="carl")] == ["likes"]


def test_an_entity_answers_its_own_question_only_where_the_graph_has_such_facts() -> None:
    assert [row[2] for row in ask(head="ben", relation="likes")] == ["anna", "ben", "carl"]
    assert [row[2] for row in ask(head="ben", relation="knows")] == ["anna"]


def test_known_facts_are_shown_when_asked_for() -> None:
    rows = ask(head="anna", relation="knows", known=True)
    assert rows == [("anna", "knows", "ben", -1.0, 1, True), ("anna", "knows", "carl", -2.0, 2, False)]


def test_what_cannot_be_asked() -> None:
    with pytest.raises(ConfigError, match="found only head"):
        Question(head="anna")
    with pytest.raises(ConfigError, match="all three"):
        Question("anna", "knows", "ben")
    with pytest.raises(UnknownName, match="Did you mean 'anna'"):
        ask(head="ana", relation="knows")
    with pytest.raises(UnknownName, match="named 'ana'"):  # nothing can be asked
        ask(questions=[("ana", "knows", "?"), ("bem", "knows", "?"), ("ana", "likes", "?")])
    with pytest.raises(ConfigError, match="found both"):
        ask(head="anna", questions=[])
    with pytest.raises(ConfigError, match="at least 1"):
        ask(head="anna", relation="knows", k=0)
    with pytest.raises(ConfigError, match="subject"):
        as_questions([{"subject": "anna", "relation": "knows"}])


def test_lists_say_how_many_known_answers_they_leave_out() -> None:
    def left_out(**asked: object) -> object:
        return predict(GRAPH, model=ByName(), **asked).summary().get("known_left_out")  # type: ignore[arg-type]

    assert left_out(head="anna", relation="knows") == 1
    assert left_out(relation="likes", tail="carl") == 2
    assert left_out(head="anna", tail="carl") == 1
    assert left_out(head="ben", relation="likes") == 0
    assert left_out(relation="likes", tail="carl", candidates=["anna", "ben"]) == 1
    assert left_out(relation="likes", tail="carl", known=True) is None
    one = predict(GRAPH, model=ByName(), head="anna", relation="knows")
    assert repr(one).splitlines()[-1] == "1 known answer is left out; known=True includes it."
    questions = [("?", "likes", "carl"), ("ben", "likes", "?"), ("anna", "?", "carl")]
    many = predict(GRAPH, model=ByName(), questions=questions)
    assert [part["count"] for part in many.summary()["known_left_out"]] == [2, 0, 1]
    assert repr(many).splitlines()[-1] == "3 known answers are left out, in 2 of 3 lists; known=True includes them."
    assert many.of_question(3).summary()["known_left_out"] == 1
    assert "left out" not in repr(predict(GRAPH, model=ByName(), head="ben", relation="likes"))


def test_many_questions_each_computed_once() -> None:
    model = ByName()
    asked = [("anna", "knows", "?"), ("anna", None, "ben"), {"relation": "knows", "tail": "carl"}]
    answers = predict(GRAPH, questions=[*asked, asked[0]], model=model)
    assert [(row["query"], row["head"], row["relation"], row["tail"]) for row in answers] == [
        (1, "anna", "knows", "carl"),
        (2, "anna", "likes", "ben"),
        (3, "anna", "knows", "carl"),
        (4, "anna", "knows", "carl"),
    ]
    assert model.asked == 3 + 2 + 3
    assert len(predict(GRAPH, questions=[], model=model)) == 0


def test_candidates_and_entities_seen() -> None:
    assert [row[2] for row in ask(head="ben", relation="likes", candidates=["carl", "anna"])] == ["anna", "carl"]
    assert [row[2] for row in ask(head="ben", relation="likes", like_tails=True)] == ["carl"]
    assert [row[0] for row in ask(tail="carl", relation="likes", like_tails=True, known=True)] == ["anna", "carl"]
    assert [row[1] for row in ask(head="carl", tail="ben", candidates=["likes"])] == ["likes"]
    with pytest.raises(UnknownName, match="'carl'"):
        ask(head="ben", relation="likes", candidates=["karl"])
    with pytest.raises(InputError, match="asks for a relation, but none of the 1"):
        ask(head="carl", tail="ben", candidates=["anna"])
    with pytest.raises(SettingError, match="like_tails"):
        ask(head="carl", tail="ben", like_tails=True)


def test_nan_is_refused() -> None:
    class Broken(ByName):
        def score_triplets(self, encoded: KnowledgeGraph, triplets: torch.Tensor) -> torch.Tensor:
            return super().score_triplets(encoded, triplets) * float("nan")

    with pytest.raises(FloatingPointError, match="NaN"):
        predict(GRAPH, model=Broken(), head="anna", relation="knows")


def test_the_table() -> None:
    answers = predict(GRAPH, model=ByName(), head="ben", relation="likes", known=True, k=2)
    assert repr(answers).splitlines()[0].split() == ["rank", "score", "head", "relation", "tail"]
    assert repr(answers).splitlines()[1].split() == ["1", "-10.00", "ben", "likes", "anna"]
    assert answers.to_list()[1] == answers[1]
    assert answers.to_pandas()["tail"].tolist() == ["anna", "ben"]
    assert "anna" in answers._repr_html_()
    assert repr(predict(GRAPH, model=ByName(), questions=[])) == "No answers."


def test_labels_are_printed_and_names_kept() -> None:
    entities = Vocabulary("entity", ["Q1", "Q2"], ["Anna", None])
    graph = KnowledgeGraph(np.array([[0, 0, 1]]), entities, Vocabulary("relation", ["P1"]))
    answers = predict(graph, model=ByName(), head="Anna", relation="P1", known=True)
    assert answers[0]["head"] == "Q1"
    assert "Anna" in repr(answers)
    assert "Q2" in repr(answers)


@settings(max_examples=40, deadline=None)
@given(graphs(min_triplets=1), st.integers(1, 5), st.booleans())
def test_batches_are_single_questions(graph: KnowledgeGraph, k: int, known: bool) -> None:
    asked = np.concatenate([graph.triplets, graph.triplets, graph.triplets]).astype(np.int64)
    asked[np.arange(len(asked)), np.arange(len(asked)) % 3] = -1
    whole = best_answers(ByName(), graph, asked, k=k, known=known)
    for row in range(len(asked)):
        alone = best_answers(ByName(), graph, asked[row : row + 1], k=k, known=known)
        mine = whole.questions == row
        assert np.array_equal(whole.triplets[mine], alone.triplets)
        assert np.array_equal(whole.ranks[mine], np.arange(1, mine.sum() + 1))
        assert np.array_equal(graph.contains(alone.triplets), alone.known)
        assert known or not alone.known.any()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=20), st.integers(1, 25), st.integers(0, 2**20 - 1))
def test_top_is_a_stable_sort(values: list[int], k: int, mask: int) -> None:
    scores = np.array(values, np.float32)
    usable = np.array([bool(mask >> i & 1) for i in range(len(values))])
    expected = sorted(np.flatnonzero(usable), key=lambda i: (-scores[i], i))[:k]
    assert top(scores, usable, k).tolist() == expected


def test_files_of_questions(tmp_path: Path) -> None:
    expected = [Question("New York", "in", None), Question(None, "in", "USA"), Question("New York", None, "USA")]
    rows = [("New York", "in", "?"), ("?", "in", "USA"), ("New York", "?", "USA")]
    (tmp_path / "q.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    (tmp_path / "q.csv").write_text("tail,head,relation\n" + "".join(f"{t},{h},{r}\n" for h, r, t in rows))
    objects = [{"head": "New York", "relation": "in"}, {"relation": "in", "tail": "USA"}]
    objects.append({"tail": "USA", "head": "New York", "relation": None})
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in objects))
    for name in ("q.tsv", "q.csv", "q.jsonl"):
        assert read_questions(tmp_path / name) == expected
    (tmp_path / "bad.tsv").write_text("a\tr\tb\n")
    (bad,) = read_questions(tmp_path / "bad.tsv")
    assert isinstance(bad, Skipped)
    assert (bad.line, bad.question) == (1, "(a, r, b)")
    (tmp_path / "names.txt").write_text("New York\r\n\nUSA\n")
    assert read_name_list(tmp_path / "names.txt") == ["New York", "USA"]


def test_the_package_offers_it() -> None:
    assert anykg.predict is predict
    assert anykg.Question is Question
    best = anykg.predict("atlas", head="Kosovo", relation="in UN regional group", k=1)
    assert best[0]["tail"] == "Eastern European Group"


def test_models_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(CheckpointError, match=r"anykg\[hub\]"):
        load_model("someone/something")
    fetched: list[str] = []

    def snapshot_download(name: str, allow_patterns: list[str]) -> str:
        fetched.append(name)
        if name == "some/one":
            raise OSError("no connection")
        return str(Path(anykg.__file__).parent / "weights" / "anykg-small")

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=snapshot_download))
    assert load_model("someone/anykg-small").symmetry is Symmetry.EXACT
    with pytest.raises(CheckpointError, match="no connection"):
        load_model("some/one")
    assert fetched == ["someone/anykg-small", "some/one"]
    with pytest.raises(UnknownName, match="anykg-small"):
        load_model("anykg-smal")


def test_a_budget_reads_part_of_the_graph_and_says_so() -> None:
    model = load_model("anykg-small")
    whole = predict("atlas", head="France", relation="borders", model=model)
    assert not whole.warnings
    near = predict("atlas", head="France", relation="borders", model=model, budget=600)
    assert near.warnings == ("Answered from about 600 of 4,444 facts near France; budget=0 reads all of them.",)
    assert len(near) == 10
    assert near.to_polars()["known"].sum() == 0, "known facts are those of the whole graph"
    both = predict("atlas", head="France", tail="Germany", model=model, budget=600, k=3)
    assert "near France and Germany" in both.warnings[0]
    questions = [("France", "borders", "?"), ("?", "borders", "Germany"), ("France", "borders", "?")]
    several = predict("atlas", questions=questions, model=model, budget=600, k=10)
    assert several.to_polars().filter(query=1)["tail"].to_list() == near.to_polars()["tail"].to_list()
    assert "each question's entities" in several.warnings[-1]
    allowed = predict("atlas", head="France", relation="borders", candidates=["Tuvalu"], budget=50, model=model)
    assert allowed.to_polars()["tail"].to_list() == ["Tuvalu"], "candidates are always read"
    scored = anykg.score("atlas", [("France", "borders", "Tuvalu")], model=model, budget=50)
    assert np.isfinite(scored[0]["score"])
