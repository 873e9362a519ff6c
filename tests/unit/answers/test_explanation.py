"""Explanations: what they name is there, and removing it is measured."""

from pathlib import Path

import numpy as np
import pytest
import torch

import anykg
from anykg.answers.explaining.contrast import contrast, touching
from anykg.answers.explaining.explanation import Explanation, explain, nearby
from anykg.answers.explaining.matches import Match
from anykg.answers.explaining.neighbourhood import neighbourhood
from anykg.answers.explaining.paths import important_paths, removal_effects
from anykg.answers.explaining.picture import draw, layout
from anykg.answers.explaining.show import as_json, as_text, sentence
from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.io.catalog import load_graph
from anykg.models.base import EncodedGraph, LinkPredictor, Symmetry
from anykg.models.nbf.nbfnet import NBFNet, NBFNetConfig
from anykg.models.registry import MODELS
from anykg.models.store import load_model
from anykg.models.uqer import UQER
from anykg.rules.clause import parse
from graphs import named, random_graph


@pytest.fixture(scope="module")
def atlas() -> KnowledgeGraph:
    return load_graph("atlas")


@pytest.fixture(scope="module")
def border(atlas: KnowledgeGraph) -> Explanation:
    triplet = (atlas.entities.index("France"), atlas.relations.index("borders"), atlas.entities.index("Germany"))
    return explain(load_model("anykg-small"), atlas, triplet, paths=3, clauses=3, draws=2)


def test_paths_lead_from_head_to_tail_over_facts(atlas: KnowledgeGraph, border: Explanation) -> None:
    assert border.known
    assert not border.graph.contains(border.triplet)
    for path in border.paths:
        assert atlas.contains(path.facts).all()
        assert (path.nodes[0], path.nodes[-1]) == (border.triplet[0], border.triplet[2])
        for fact, ends in zip(path.facts, zip(path.nodes, path.nodes[1:], strict=False), strict=True):
            assert {fact[0], fact[2]} == set(ends)


def test_what_is_removed_is_gone_and_matters(border: Explanation) -> None:
    model = load_model("anykg-small")
    left = border.graph.without(border.removal.facts)
    assert len(left) == len(border.graph) - len(border.removal.facts)
    with torch.no_grad():
        score = model.score_triplets(model.encode(left), torch.from_numpy(border.triplet)[None])
    assert border.removal.score == pytest.approx(float(score), abs=1e-4)
    assert border.removal.score < min(other.score for other in border.random)
    assert sum(path.effect for path in border.paths) == pytest.approx(border.score - border.removal.score, abs=1e-3)
    assert border.removal.rank > border.rank


def test_the_symmetric_fact_is_the_first_reason(border: Explanation) -> None:
    match = border.matches[0]
    assert str(match.clause) == "(E2, C1, E1) => (E1, C1, E2)"
    assert (match.support, match.body) == (646, 647)  # all other borders: the one asked about is taken out
    assert len(border.paths[0].facts) == 1


def test_text_and_json_name_everything(border: Explanation) -> None:
    text, content = as_text(border), as_json(border)
    assert "France <-borders- Germany" in text
    assert "the graph has this fact, which was removed first" in text
    assert "random facts nearby, mean of 2 draws" in text
    assert content["triplet"] == ["France", "borders", "Germany"]
    assert content["paths"][0]["facts"] == [["Germany", "borders", "France"]]
    assert len(content["random"]) == 2


@pytest.mark.parametrize("name", ["why.svg", "why.png"])
def test_pictures_are_written_and_the_same_again(border: Explanation, tmp_path: Path, name: str) -> None:
    draw(border, tmp_path / name)
    draw(border, tmp_path / f"again.{name}")
    first = (tmp_path / name).read_bytes()
    assert first == (tmp_path / f"again.{name}").read_bytes()
    assert first[:4] == b"\x89PNG" if name.endswith("png") else b"Germany" in first or b"<svg" in first
    assert set(layout(border)) >= {int(border.triplet[0]), int(border.triplet[2])}


def test_pictures_need_a_known_format(border: Explanation, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ends with \.svg or \.png"):
        draw(border, tmp_path / "why.pdf")


def test_models_of_clauses_say_what_each_adds(atlas: KnowledgeGraph, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = UQER()
    triplet = (atlas.entities.index("France"), atlas.relations.index("borders"), atlas.entities.index("Germany"))
    found = explain(model, atlas, triplet, clauses=4, draws=1)
    assert not found.paths
    assert [match.weight for match in found.matches] == sorted((m.weight for m in found.matches), reverse=True)
    assert "to the score" in as_text(found)
    assert len(found.removal.facts)
    draw(found, tmp_path / "why.svg")


def test_nbfnet_has_paths_too() -> None:
    torch.manual_seed(0)
    graph = random_graph(20, 3, 120, 1)
    model = NBFNet(NBFNetConfig(aggregation="sum"))
    found = explain(model, graph, (0, 1, 5), paths=2, draws=1)
    assert 1 <= len(found.paths) <= 2


@pytest.mark.parametrize("name", ["isdea+", "ingram", "graphconv", "rmpi"])
def test_any_model_is_explained_by_removing_facts(name: str) -> None:
    """Without a word of its own on what its edges are worth."""
    graph = random_graph(15, 3, 50, 4)
    model_class = MODELS.load(name)
    torch.manual_seed(1)
    model = model_class.build(model_class.Config(), graph).eval()
    assert model.edge_relevance(graph, torch.tensor([0, 1, 5])) is None
    found = explain(model, graph, (0, 1, 5), paths=2, draws=1)
    assert 1 <= len(found.paths) <= 2
    assert graph.contains(np.concatenate([path.facts for path in found.paths])).all()
    assert found.removal.score == pytest.approx(found.score - sum(path.effect for path in found.paths), abs=1e-3)
    assert found.paths[0].effect > 0


def test_large_graphs_are_explained_by_their_neighbourhood(atlas: KnowledgeGraph, border: Explanation) -> None:
    model = load_model("anykg-small")
    rest = border.graph
    whole = important_paths(model, rest, border.triplet)
    near = neighbourhood(rest, border.triplet, 400)
    assert len(near.graph) == 400
    assert near.graph.num_entities < rest.num_entities
    assert near.lengths.max() <= neighbourhood(rest, border.triplet, len(rest)).lengths.max()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anykg.answers.explaining.paths.RELEVANT_FACTS", 400)
        part = important_paths(model, rest, border.triplet)
    for path in part:
        assert rest.contains(path.facts).all()
        assert (path.nodes[0], path.nodes[-1]) == (border.triplet[0], border.triplet[2])
    assert (
        part[0].facts.tolist() == whole[0].facts.tolist() == [[border.triplet[2], border.triplet[1], border.triplet[0]]]
    )


def test_a_known_fact_has_no_say_in_the_part_that_explains_it() -> None:
    """Within a budget, an explanation is the same whether the graph has the fact or not."""
    graph = random_graph(300, 4, 900)
    fact = graph.triplets[5:6]
    names = [graph.entities[int(fact[0, 0])], graph.relations[int(fact[0, 1])], graph.entities[int(fact[0, 2])]]
    how = {"model": "anykg-small", "budget": 60, "draws": 1}
    known, new = (anykg.explain(one, *names, **how).explanation for one in (graph, graph.without(fact)))
    assert known.known
    assert not new.known
    assert known.score == pytest.approx(new.score, abs=1e-5)
    assert known.graph.digest == new.graph.digest


def test_a_fact_that_matters_most_is_found_by_removal() -> None:
    """A model that counts facts of the relation at the tail owes its score to those, and to nothing else."""

    class Popular(LinkPredictor):
        symmetry = Symmetry.EXACT

        def score_triplets(self, encoded: EncodedGraph, triplets: torch.Tensor) -> torch.Tensor:
            facts = encoded.graph.triplets
            counts = [((facts[:, 1] == r) & (facts[:, 2] == t)).sum() for _, r, t in triplets.tolist()]
            return torch.tensor(counts, dtype=torch.float32)

    graph = named("a likes x", "b likes x", "c knows x", "a knows d", "e likes y")
    asked = (graph.entities.index("d"), graph.relations.index("likes"), graph.entities.index("x"))
    near = neighbourhood(graph, np.array(asked), 100)
    effects = removal_effects(Popular(), near)
    assert {tuple(graph.to_polars().row(i)) for i in np.flatnonzero(effects)} == {
        ("a", "likes", "x"),
        ("b", "likes", "x"),
    }
    found = explain(Popular(), graph, asked, draws=0)
    assert len(found.paths) == 2
    assert found.removal.score == 0


def test_nothing_to_say_is_said() -> None:
    graph = named("a r b", "c s d")
    found = explain(load_model("anykg-small"), graph, (0, 1, 3), draws=2)
    text = as_text(found)
    assert "nothing to remove" in text or "Without" in text
    alone = explain(load_model("anykg-small"), named("a r b"), (0, 0, 1), draws=1)
    assert not alone.paths
    assert "No clause that holds in this graph implies it." in as_text(alone)
    assert "There is nothing to remove" in as_text(alone)


def test_nearby_facts_touch_the_neighbourhood_and_are_others() -> None:
    graph = random_graph(30, 3, 80, 2)
    reasons = graph.triplets[:3].astype(np.int64)
    drawn = nearby(graph, np.array([0, 0, 1]), reasons, np.random.default_rng(0))
    assert len(drawn) == 3
    assert graph.contains(drawn).all()
    assert not graph.with_triplets(reasons).contains(drawn).any()


def test_the_named_fact_matters_most_of_all_nearby(atlas: KnowledgeGraph) -> None:
    """Every fact nearby is removed by hand; none shrinks the lead more than the one that is named."""
    model = load_model("anykg-small")
    row = np.array(
        [
            atlas.entities.index("Kosovo"),
            atlas.relations.index("in UN regional group"),
            atlas.entities.index("Eastern European Group"),
        ]
    )
    found = contrast(model, atlas, row, tested=24)
    assert found is not None
    assert found.lead > 0
    assert found.tested == found.nearby > 24  # all are masked, and the best of them removed
    both = torch.from_numpy(np.stack([row, [row[0], row[1], found.other]]))
    effects = []
    with torch.no_grad():
        for fact in touching(atlas, np.array([row[0], row[2], found.other])):
            answer, other = model.score_triplets(
                model.encode(atlas.subset(np.arange(len(atlas)) != fact)), both
            ).tolist()
            effects.append(found.lead - (answer - other))
    assert found.facts[0].effect == pytest.approx(max(effects), abs=1e-4)


def test_a_better_known_answer_is_named() -> None:
    graph = named(*(f"p{i} in d{i % 2}" for i in range(12)), *(f"p{i} likes p{(i + 2) % 12}" for i in range(12)))
    model = load_model("rulebook")
    row = (graph.entities.index("p0"), graph.relations.index("in"), graph.entities.index("d1"))
    found = explain(model, graph, row, draws=0)
    assert found.contrast is not None
    assert [graph.entities[entity] for entity, _ in found.contrast.known] == ["d0"]
    assert "A better answer is already known: p0 in d0" in as_text(found)


def test_clauses_are_told_in_the_words_of_the_graph() -> None:
    graph = named("a knows b", "b lives_in c", "d knows e", "e lives_in f", "d lives_in f")
    a, b, c = (graph.entities.index(name) for name in "abc")
    knows, lives = graph.relations.index("knows"), graph.relations.index("lives_in")
    facts = np.array([[b, lives, c], [a, knows, b]])
    match = Match(parse("(E1, C2, E3) & (E3, C1, E2) => (E1, C1, E2)"), facts, support=153, body=203)
    assert sentence(graph, match, a) == "a knows b, and b lives_in c; the fact holds for 153 of 203 such pairs"


def test_a_fact_that_two_entities_share_is_told_once() -> None:
    graph = named("a lives_in c", "b lives_in c", "b votes_for d")
    a, b, c, d = (graph.entities.index(name) for name in "abcd")
    lives, votes = graph.relations.index("lives_in"), graph.relations.index("votes_for")
    facts = np.array([[b, votes, d], [a, lives, c], [b, lives, c]])
    match = Match(parse("(E1, C2, E3) & (E4, C2, E3) & (E4, C1, E2) => (E1, C1, E2)"), facts, support=2, body=3)
    assert sentence(graph, match, a) == "a, like b, lives_in c, and b votes_for d; the fact holds for 2 of 3 such pairs"
