"""The public API: any form of graph in, plain results with one JSON shape out."""

import json
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import anykg
from anykg.errors import DataError, SettingError, UnknownName
from anykg.evaluation.evaluate import evaluate as rank_test
from anykg.evaluation.protocol import PROTOCOLS
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor, Symmetry
from anykg.models.random import RandomScorer
from graphs import random_graph

ROWS = [(1, "knows", 2), (2, "knows", 3), (1, "likes", 3), (3, "likes", 3)]
SHAPE = ["command", "version", "graph", "model", "summary", "rows", "warnings"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


class Look(LinkPredictor):
    """Scores a fact of the encoded graph higher than anything else: it leaks unless facts are hidden."""

    symmetry = Symmetry.EXACT

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> KnowledgeGraph:
        return graph

    def score_triplets(self, encoded: KnowledgeGraph, triplets: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(encoded.contains(triplets.numpy())).float()


def forms(tmp_path: Path) -> dict[str, object]:
    columns = dict(zip(("head", "relation", "tail"), zip(*ROWS, strict=True), strict=True))
    path = tmp_path / "facts.tsv"
    path.write_text("".join(f"{h}\t{r}\t{t}\n" for h, r, t in ROWS))
    graph = nx.MultiDiGraph()
    for head, relation, tail in ROWS:
        graph.add_edge(head, tail, relation=relation)
    return {
        "path": path,
        "text": str(path),
        "rows": ROWS,
        "dicts": [dict(zip(("head", "relation", "tail"), row, strict=True)) for row in ROWS],
        "pandas": pd.DataFrame(columns),
        "polars": pl.DataFrame({name: list(values) for name, values in columns.items()}),
        "networkx": graph,
        "graph": KnowledgeGraph.from_names(*([str(v) for v in values] for values in columns.values())),
    }


@pytest.mark.parametrize("form", ["path", "text", "rows", "dicts", "pandas", "polars", "networkx", "graph"])
def test_every_form_of_graph(form: str, tmp_path: Path) -> None:
    graph = anykg.read_graph(forms(tmp_path)[form])
    assert set(graph.to_polars().rows()) == {(str(h), r, str(t)) for h, r, t in ROWS}
    answers = anykg.predict(forms(tmp_path)[form], head=1, relation="knows", model=RandomScorer())
    assert {row["tail"] for row in answers} == {"3"}


def test_what_is_not_a_graph() -> None:
    with pytest.raises(DataError, match="found int"):
        anykg.read_graph(3)
    with pytest.raises(DataError, match=r"Row 2: expected three names"):
        anykg.read_graph([("a", "r", "b"), ("a", "r", None)])
    with pytest.raises(DataError, match=r"Row 1: expected \(head, relation, tail\)"):
        anykg.read_graph([("a", "b")])
    with pytest.raises(DataError, match="which columns are head, relation and tail"):
        anykg.read_graph(pd.DataFrame({"a": [1], "b": [2]}))


def test_everything_is_listed_and_light() -> None:
    verbs = [
        "read_graph",
        "predict",
        "score",
        "complete",
        "check",
        "explain",
        "rules",
        "evaluate",
        "train",
        "load_model",
    ]
    assert set(verbs) <= set(dir(anykg))
    assert all(callable(getattr(anykg, verb)) for verb in verbs)
    with pytest.raises(AttributeError, match="'anykg' has no attribute 'nothing'"):
        anykg.nothing  # noqa: B018


def test_one_json_shape(tmp_path: Path) -> None:
    graph, model = random_graph(25, 3, 160), RandomScorer()
    graph.name = "toy"
    results = [
        anykg.predict(graph, head="e1", relation="r1", model=model),
        anykg.score(graph, graph.to_polars().head(3), model=model),
        anykg.complete(graph, model=model, count=5),
        anykg.check(graph, model=model, facts=20),
        anykg.evaluate(graph, model=model),
        anykg.explain(graph, "e1", "r1", "e2", model=model),
        anykg.rules(graph, length=1, nulls=0),
        anykg.train("gin", graph, out=tmp_path / "run", epochs=1, width=4),
    ]
    for result in results:
        shape = json.loads(result.to_json())
        assert list(shape) == SHAPE
        assert shape == result.to_dict()
        assert shape["graph"]["name"] == "toy" or result.command == "train"
        assert len(shape["rows"]) == result.to_polars().height == len(result.to_pandas())
        assert repr(result)
        assert "<table" in result._repr_html_()
    assert [result.command for result in results] == [
        "predict",
        "score",
        "complete",
        "check",
        "evaluate",
        "explain",
        "rules",
        "train",
    ]


def test_scores_are_those_of_a_leave_one_out_evaluation() -> None:
    graph, model = random_graph(25, 3, 160), RandomScorer()
    facts = graph.subset(np.arange(0, 160, 40))
    scored = anykg.score(graph, facts.to_polars(), model=model)
    rest = graph.subset(~facts.contains(graph.triplets))
    expected = rank_test(model, rest, facts, task="node", protocol=PROTOCOLS["full"])
    found = sorted([*scored.to_polars()["tail_rank"], *scored.to_polars()["head_rank"]])
    assert found == sorted(expected.ranks.by(PROTOCOLS["full"].ties))
    assert scored.to_polars()["known"].all()


def test_a_known_fact_does_not_prove_itself() -> None:
    graph = random_graph(25, 3, 160)
    scored = anykg.score(graph, graph.to_polars(), model=Look())
    assert scored.to_polars()["score"].max() == 0.0
    alone = anykg.predict(graph, **graph.to_polars().row(0, named=True), model=Look())
    assert alone.command == "score"
    assert alone[0]["score"] == 0.0


def test_batches_forgive_unknown_names(tmp_path: Path) -> None:
    path = tmp_path / "questions.tsv"
    path.write_text("1\tknows\t?\n\nnobody\tknows\t?\n1\tknows\t2\n?\tknows\t3\n")
    answers = anykg.predict(ROWS, questions=path, model=RandomScorer())
    assert {row["query"] for row in answers} == {1, 4}
    assert [(part.query, part.line) for part in answers.skipped] == [(2, 3), (3, 4)]
    assert "question 2 (line 3): There is no entity named 'nobody'" in str(answers.skipped[0])
    assert "2 of 4 questions could not be answered" in answers.warnings[0]
    assert answers.to_dict()["summary"]["skipped"][1]["question"] == "(1, knows, 2)"
    with pytest.raises(UnknownName, match=r"question 2 \(line 3\): .*nobody"):
        anykg.predict(ROWS, questions=path, strict=True, model=RandomScorer())


def test_files_of_facts_forgive_unknown_names_and_short_lines(tmp_path: Path) -> None:
    path = tmp_path / "claims.tsv"
    path.write_text("# claims\n1\tknows\t3\n\n1\tknow\t3\n1\tknows\n2\tknows\t\n2\tknows\t3\n")
    scored = anykg.score(ROWS, path, model=RandomScorer())
    assert [(row["head"], row["tail"]) for row in scored] == [("1", "3"), ("2", "3")]
    assert list(map(str, scored.skipped)) == [
        "fact 2 (line 4): There is no relation named 'know'. Did you mean 'knows'?",
        "fact 3 (line 5): The line has 2 fields instead of 3.",
        "fact 4 (line 6): Expected head, relation and tail; tail missing.",
    ]
    assert scored.warnings == ("3 of 5 facts could not be scored.",)
    assert [row["line"] for row in scored.to_dict()["summary"]["skipped"]] == [4, 5, 6]
    with pytest.raises(UnknownName, match=r"fact 2 \(line 4\): There is no relation named 'know'"):
        anykg.score(ROWS, path, model=RandomScorer(), strict=True)
    with pytest.raises(UnknownName, match="fact 1: There is no entity named 'nobody'"):
        anykg.score(ROWS, [("nobody", "knows", "3")] * 2, model=RandomScorer())


def test_scores_are_said_to_compare_within_one_question_only() -> None:
    alone = anykg.predict(ROWS, head="1", relation="knows", model=RandomScorer(), known=True)
    assert repr(alone).splitlines()[-1].startswith("Compare scores within one question")
    stated = replace(alone, frame=alone.frame.rename({"score": "probability"}))
    assert "Scores" not in repr(stated)


def test_names_cannot_steer_the_terminal() -> None:
    answers = anykg.predict(
        [("a", "r", "\x1b[31mred"), ("b", "r", "c")], head="a", relation="r", model=RandomScorer(), known=True
    )
    assert "\x1b" not in repr(answers)
    assert r"\x1b[31mred" in repr(answers)
    assert "\x1b[31mred" in answers.to_polars()["tail"].to_list()


def test_settings_are_values_or_text(tmp_path: Path) -> None:
    graph = random_graph(25, 3, 160)
    before = torch.get_rng_state()
    trained = anykg.train("gin", graph, out=tmp_path / "run", epochs="1", lr=1, width=4)
    assert torch.equal(torch.get_rng_state(), before), "the caller's random numbers are left alone"
    assert trained.to_polars()["epoch"].to_list() == [1]
    assert anykg.predict(graph, head="e1", relation="r1", model=trained.folder).model == str(tmp_path / "run")
    with pytest.raises(SettingError, match="epoch: there is no such setting; did you mean epochs") as caught:
        anykg.train("gin", graph, out=tmp_path / "other", epoch=1)
    assert caught.value.as_option() == "--epoch: there is no such setting; did you mean --epochs?"
    with pytest.raises(SettingError, match="expected int, found 'many'"):
        anykg.train("gin", graph, out=tmp_path / "other", epochs="many")
