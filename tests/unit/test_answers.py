import pytest
import torch

import anykg
from anykg.answers import Question, predict
from anykg.core.contract import LinkPredictor, Symmetry
from anykg.core.errors import ConfigError, UnknownName
from anykg.data.graph import KnowledgeGraph
from graphs import named

GRAPH = named("anna knows ben", "ben knows carl", "anna likes carl")


class ByName(LinkPredictor):
    """Scores by the order of names, so that answers can be read off."""

    symmetry = Symmetry.ENTITIES_ONLY

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> KnowledgeGraph:
        return graph

    def score_triplets(self, encoded: KnowledgeGraph, triplets: torch.Tensor) -> torch.Tensor:
        return -(triplets[:, 2] + 10.0 * (triplets[:, 1] % encoded.num_relations))


def ask(k: int = 10, known: bool = False, **parts: str) -> list[tuple[object, ...]]:
    return predict(ByName(), GRAPH, Question(**parts), k=k, known=known).rows()


def test_three_kinds_of_question() -> None:
    assert [row[2] for row in ask(head="anna", relation="knows")] == ["anna", "carl"]
    assert [row[0] for row in ask(relation="knows", tail="ben")] == ["ben", "carl"]
    assert [row[1] for row in ask(head="ben", tail="carl")] == ["likes"]


def test_known_facts_are_shown_when_asked_for() -> None:
    rows = ask(head="anna", relation="knows", known=True, k=2)
    assert rows == [("anna", "knows", "anna", 0.0, 1, False), ("anna", "knows", "ben", -1.0, 2, True)]


def test_what_cannot_be_asked() -> None:
    with pytest.raises(ConfigError, match="left out relation, tail"):
        Question(head="anna")
    with pytest.raises(ConfigError, match="all three"):
        Question("anna", "knows", "ben")
    with pytest.raises(UnknownName, match="Did you mean 'anna'"):
        ask(head="ana", relation="knows")


def test_nan_is_refused() -> None:
    class Broken(ByName):
        def score_triplets(self, encoded: KnowledgeGraph, triplets: torch.Tensor) -> torch.Tensor:
            return super().score_triplets(encoded, triplets) * float("nan")

    with pytest.raises(FloatingPointError, match="NaN"):
        predict(Broken(), GRAPH, Question(head="anna", relation="knows"))


def test_the_package_offers_it() -> None:
    assert anykg.predict is predict
    assert anykg.predict is anykg.predict
