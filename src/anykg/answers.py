"""Answer one question about a graph by name: (head, relation, ?), (?, relation, tail) or (head, ?, tail)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import torch

from anykg.core.contract import LinkPredictor
from anykg.core.errors import ConfigError
from anykg.data.graph import KnowledgeGraph


@dataclass(frozen=True)
class Question:
    """A triplet with one place left open."""

    head: str | None = None
    relation: str | None = None
    tail: str | None = None

    def __post_init__(self) -> None:
        missing = [name for name in ("head", "relation", "tail") if getattr(self, name) is None]
        if len(missing) != 1:
            found = f"left out {', '.join(missing)}" if missing else "all three were given"
            raise ConfigError(f"Expected two of head, relation and tail, so that the third is asked for; {found}.")


def predict(
    model: LinkPredictor, graph: KnowledgeGraph, question: Question, *, k: int = 10, known: bool = False
) -> pl.DataFrame:
    """The k best answers: head, relation, tail, score, rank, known. Known facts are left out unless `known`."""
    entity, relation = graph.entities.index, graph.relations.index
    with torch.no_grad():
        encoded = model.eval().encode(graph)
        if question.relation is None:
            head, tail = entity(question.head or ""), entity(question.tail or "")
            scores = model.score_relations(encoded, torch.tensor([head]), torch.tensor([tail]))[0]
            taken = graph.relations_between(np.array([head]), np.array([tail])).values
        else:
            kind = relation(question.relation)
            start = entity((question.tail if question.head is None else question.head) or "")
            kind += graph.num_relations if question.head is None else 0
            scores = model.score_tails(encoded, torch.tensor([start]), torch.tensor([kind]))[0]
            taken = graph.answers(np.array([start]), np.array([kind])).values
    if torch.isnan(scores).any():
        raise FloatingPointError("The model's scores are NaN; refusing to rank.")
    is_known = torch.zeros(len(scores), dtype=torch.bool)
    is_known[torch.from_numpy(taken.astype(np.int64))] = True
    order = torch.argsort(scores, descending=True, stable=True)
    if not known:
        order = order[~is_known[order]]
    best = order[:k]
    names = graph.relations.names if question.relation is None else graph.entities.names
    found = names.gather(best.numpy())
    return pl.DataFrame(
        {
            place: found if value is None else pl.Series([value], dtype=pl.String).new_from_index(0, len(best))
            for place, value in vars(question).items()
        }
        | {"score": scores[best].numpy(), "rank": np.arange(1, len(best) + 1), "known": is_known[best].numpy()}
    )
