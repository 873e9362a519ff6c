"""Rejected triples: how they are read, and that a fitted model never proposes them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import anykg
from anykg.answers.fit import fit
from anykg.answers.fitting.mixing import ask, both_ways
from anykg.answers.fitting.negatives import find_negatives, read_negatives
from anykg.benchmarks.answers.staff import DEPARTMENT_OF, staff_graph
from anykg.errors import DataError, InputError
from anykg.models.floors import PageRank, Popularity
from anykg.models.mixture import REJECTED
from anykg.models.store import load_model
from graphs import random_graph

GRAPH = staff_graph().subset(np.arange(0, 2760, 4))


def test_decisions_in_force_count(tmp_path: Path) -> None:
    def line(tail: str, verdict: str) -> str:
        return json.dumps({"id": "1", "head": "a", "relation": "r", "tail": tail, "verdict": verdict, "note": ""})

    path = tmp_path / "decisions.jsonl"
    rows = [("x", "reject"), ("y", "reject"), ("y", "accept"), ("z", "accept"), ("z", "reject"), ("z", "undo")]
    rows += [("w", "skip"), ("w", "reject")]
    path.write_text("\n".join(line(*row) for row in rows) + '\n{"head": "a", "rel')
    assert read_negatives(path) == [("a", "r", "x"), ("a", "r", "w")]


def test_a_file_of_triples_and_a_list_say_the_same(tmp_path: Path) -> None:
    path = tmp_path / "wrong.tsv"
    path.write_text("a\tr\tb\nc\tr\td\n")
    assert sorted(read_negatives(path)) == sorted(read_negatives([("a", "r", "b"), ("c", "r", "d"), ("a", "r", "b")]))
    with pytest.raises(InputError, match="no such file"):
        read_negatives(tmp_path / "nothing.tsv")
    with pytest.raises(InputError, match="expected triples"):
        read_negatives([("a", "r")])  # type: ignore[list-item]


def test_names_the_graph_does_not_have_are_left_out() -> None:
    person = "person 4"
    known = (person, DEPARTMENT_OF, "Finance")
    assert len(find_negatives(GRAPH, [known, ("nobody", DEPARTMENT_OF, "Finance")])) == 1
    with pytest.raises(DataError, match="has names of the graph"):
        find_negatives(GRAPH, [("nobody", DEPARTMENT_OF, "Finance")])


def test_rejected_answers_compete_when_the_mix_is_learnt() -> None:
    graph, hidden = random_graph(600, 2, 2000), random_graph(600, 2, 20, seed=1)
    whole = graph.union(hidden)
    facts = hidden.subset(~graph.contains(hidden.triplets)).triplets
    wrong = facts.copy()
    wrong[:, 2] = (wrong[:, 2] + 301) % 600
    wrong = wrong[~whole.contains(wrong)]
    models = [Popularity(), PageRank()]
    encoded = [model.encode(graph) for model in models]
    rejected = graph.with_triplets(wrong)
    found = ask(models, encoded, graph, whole, both_ways(facts, 2), rejected=rejected)
    assert found.rejected is not None
    asked = {(int(head), int(relation)): row for row, (head, relation, _) in enumerate(found.questions)}
    for head, relation, tail in wrong:
        row = asked[int(head), int(relation)]
        column = found.candidates[row].tolist().index(int(tail))
        assert bool(found.rejected[row, column])
        assert float(found.offsets[row, column]) == 0.0  # stands for itself
    assert int(found.rejected.sum()) >= len(wrong)


def test_a_rejected_answer_is_never_proposed_again(tmp_path: Path) -> None:
    from anykg.models.nbf.ultra import Ultra, UltraConfig

    torch.manual_seed(0)
    foundation = Ultra(UltraConfig(width=16, relation_layers=2, entity_layers=2)).eval()
    rows = GRAPH.to_polars()
    head = rows.filter(rows["relation"] == DEPARTMENT_OF)["head"][0]
    question = {"head": head, "relation": "has skill"}
    plain = fit(GRAPH, minutes=0.03, model=foundation)
    first = anykg.predict(GRAPH, **question, k=1, model=plain).to_dict()["rows"][0]["tail"]
    fit(GRAPH, minutes=0.03, model=foundation, negatives=[(head, "has skill", first)], out=tmp_path)
    made = load_model(tmp_path)
    answers = anykg.predict(GRAPH, **question, k=1000, calibrated=True, model=made).to_dict()["rows"]
    assert answers[-1]["tail"] == first
    assert answers[-1]["probability"] < 0.01
    encoded = made.encode(GRAPH)
    ids = torch.from_numpy(find_negatives(GRAPH, [(head, "has skill", first)]))
    heads, relations, tails = ids.T
    assert made.score_triplets(encoded, ids).item() == REJECTED
    assert made.score_tails(encoded, tails, relations + GRAPH.num_relations)[0, heads].item() == REJECTED
    assert made.score_relations(encoded, heads, tails)[0, relations].item() == REJECTED
    some = torch.stack([tails, tails + 1], 1)
    assert (made.score_tails(encoded, heads, relations, some) == REJECTED).tolist() == [[True, False]]
    assert (plain.score_triplets(plain.encode(GRAPH), ids) > REJECTED).all()
