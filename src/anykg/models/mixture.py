"""A log-linear mixture of models, with weights for each relation and direction.

score(h, r, t) = sum over components c of weight[r, c] * score_c(h, r, t), with r over both directions. The raw scores
of a component are used: a softmax over the answers of one question is invariant to constants, so mixing raw scores is
mixing log-probabilities. Questions about relations have separate weights, one for each component.

Weights belong to the names of relations. A component that does not know an entity or a relation by name reports it in
`knows_entities` and `knows_relations` of its encoding; it is left out of questions about these, which use the weights
`fallback`, fitted without such components.

Rejected triples (`negatives`) are stored by name and score `REJECTED`, so that they rank last in every list.

The answers to questions about hidden facts from which the weights were learnt are stored (`hidden_*`): the components
have since been fitted to those facts, so the answers cannot be recomputed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph, Ragged
from anykg.models.base import LinkPredictor, Symmetry
from anykg.models.complex.complex import ComplEx, name_keys, rows_of
from anykg.models.recipe import Recipe
from anykg.models.registry import MODELS
from anykg.settings import from_json

KEPT = 10
"""Number of best answers kept for every question about hidden facts."""
REJECTED = -1e4
"""Score of a rejected triple: far below all others, and finite."""


@dataclass(frozen=True)
class Component:
    """One component of a mixture."""

    name: str
    """Its name in tables."""
    model: str
    """Its name in the registry."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Its settings."""


@dataclass(frozen=True)
class MixtureConfig:
    """The components of a mixture and how it was fitted."""

    components: tuple[Component, ...] = (Component("popularity", "popularity"), Component("pagerank", "pagerank"))
    """The models, in the order of the weights."""
    num_relations: int = 0
    """Number of relations with their own weights; 0 uses the same weights for all."""
    graph: str = ""
    """Digest of the graph it was fitted to."""
    facts: int = 0
    """Facts of that graph."""
    sketch: int = 0
    """Hashes in the sketch of that graph (`graph.versions`)."""
    hidden_share: float = 0.0
    """Share of the facts that were hidden while the weights were learnt."""
    seed: int = 0
    """Seed for drawing them."""
    questions: int = 0
    """Number of questions about hidden facts."""
    relation_questions: int = 0
    """The same, for relations."""
    negatives: int = 0
    """Rejected triples."""
    calibration: Mapping[str, Any] = field(default_factory=dict)
    """The calibration of scores, by kind of question."""
    table: tuple[Mapping[str, Any], ...] = ()
    """Metrics of each component and of the mixture on hidden facts."""

    def __post_init__(self) -> None:
        parts = tuple(Component(**part) if isinstance(part, Mapping) else part for part in self.components)
        object.__setattr__(self, "components", parts)
        if not parts:
            raise ConfigError("components: expected at least one, found none.")


@dataclass(frozen=True, eq=False)
class Encoded:
    """The encodings of every component, and the weights in the order of the graph's relations."""

    parts: tuple[Any, ...]
    weights: Tensor  # [2R, C]
    num_relations: int
    rejected: KnowledgeGraph | None = None
    """The rejected triples whose names the graph has; None without any."""

    @property
    def num_entities(self) -> int:
        """N."""
        return int(self.parts[0].num_entities)


class Mixture(LinkPredictor):
    """Several models as one."""

    Config = MixtureConfig
    config: MixtureConfig
    recipe = Recipe(epochs=0)
    relations_apart = True

    relation_keys: Tensor
    weights: Tensor
    typical: Tensor
    fallback: Tensor
    relation_weights: Tensor
    hidden_questions: Tensor
    """[Q, 3]: head, relation (inverses from R on), answer; of relations: head, tail, answer."""
    hidden_ranks: Tensor
    """[Q], of the answers, under weights that were fitted to other questions."""
    hidden_best: Tensor
    """[Q, KEPT], the best answers that are not visible facts; -1 after the last."""
    hidden_best_scores: Tensor
    """[Q, KEPT], their log-probabilities among all candidates."""
    graph_sketch: Tensor
    """[S]: hashes of facts of the graph it was fitted to."""
    negatives: Tensor
    """[K, 3]: rejected triples as keys of their names."""
    hidden_relation_questions: Tensor
    hidden_relation_ranks: Tensor
    hidden_relation_best: Tensor
    hidden_relation_best_scores: Tensor

    def __init__(self, config: MixtureConfig = MixtureConfig()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.config = config
        classes = [MODELS.load(part.model) for part in config.components]
        self.components = nn.ModuleList(
            made(from_json(made.Config, part.config)) for made, part in zip(classes, config.components, strict=True)
        )
        count, relations = len(classes), config.num_relations
        self.register_buffer("relation_keys", torch.zeros(relations, dtype=torch.int64))
        self.register_buffer("weights", torch.ones(2 * relations, count))
        self.register_buffer("typical", torch.ones(count))
        self.register_buffer("fallback", torch.ones(count))
        self.register_buffer("relation_weights", torch.ones(count))
        self.register_buffer("graph_sketch", torch.zeros(config.sketch, dtype=torch.int64))
        self.register_buffer("negatives", torch.zeros(config.negatives, 3, dtype=torch.int64))
        for kind, asked in (("hidden", config.questions), ("hidden_relation", config.relation_questions)):
            self.register_buffer(f"{kind}_questions", torch.zeros(asked, 3, dtype=torch.int64))
            self.register_buffer(f"{kind}_ranks", torch.ones(asked))
            self.register_buffer(f"{kind}_best", torch.full((asked, KEPT), -1))
            self.register_buffer(f"{kind}_best_scores", torch.zeros(asked, KEPT))
        exact = all(part.symmetry is Symmetry.EXACT for part in self.models)
        self.symmetry = Symmetry.EXACT if exact else Symmetry.IN_EXPECTATION
        # Weights and probabilities that were learnt on a whole graph hold for questions about all of it.
        self.reads_whole_graphs = bool(config.graph) or all(part.reads_whole_graphs for part in self.models)
        self.reads_relations = any(part.reads_relations for part in self.models)

    @classmethod
    def foreign_code(cls, config: MixtureConfig) -> list[str]:
        """Components that are not registered."""
        return [part.model for part in config.components if part.model not in MODELS]

    @property
    def models(self) -> list[LinkPredictor]:
        """The components."""
        return list(self.components)  # type: ignore[arg-type]

    @property
    def names(self) -> list[str]:
        """The names of the components."""
        return [part.name for part in self.config.components]

    def unknown_to(self, graph: KnowledgeGraph) -> dict[str, tuple[int, int]]:
        """For every component fitted to names: the numbers of unknown entities and relations of a graph."""
        unknown = {}
        for name, model in zip(self.names, self.models, strict=True):
            if isinstance(model, ComplEx) and model.fitted:
                entities = int((rows_of(model.entity_keys, name_keys(graph.entities)) < 0).sum())
                relations = int((rows_of(model.relation_keys, name_keys(graph.relations)) < 0).sum())
                if entities or relations:
                    unknown[name] = entities, relations
        return unknown

    def remark(self, graph: KnowledgeGraph) -> str | None:
        from anykg.models.rulebook import Rulebook  # imports numba

        for model in self.models:
            if isinstance(model, Rulebook) and not model.fitted and not model.mines(graph):
                return (
                    f"The graph has more than {model.config.largest:,} facts, so it is not mined for rules; "
                    "`anykg fit` mines a sample of the facts."
                )
        return None

    def __repr__(self) -> str:
        """A table of the components' metrics on hidden facts, or their names."""
        if not self.config.table:
            return f"Mixture({', '.join(self.names)})"
        lines = [f"{'component':<18}{'MRR':>8}{'Hits@10':>9}{'weight':>8}{'relation MRR':>14}"]
        for row in self.config.table:
            figures = (row["mrr"], row["hits@10"], row.get("weight"), row.get("relation_mrr"))
            cells = ["" if value is None else f"{value:.3f}" for value in figures]
            lines.append(f"{row['component']:<18}{cells[0]:>8}{cells[1]:>9}{cells[2]:>8}{cells[3]:>14}".rstrip())
        return "\n".join(lines)

    def fixed_to(self, graph: KnowledgeGraph) -> Mixture:
        fixed = [model.fixed_to(graph) for model in self.models]
        if all(new is model for new, model in zip(fixed, self.models, strict=True)):
            return self
        mixture = copy(self)
        mixture._modules = {"components": nn.ModuleList(fixed)}
        return mixture

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> Encoded:
        return Encoded(
            tuple(model.encode(graph, seed) for model in self.models),
            self._graph_weights(graph),
            graph.num_relations,
            self._rejected(graph),
        )

    def _rejected(self, graph: KnowledgeGraph) -> KnowledgeGraph | None:
        """The rejected triples whose names the graph has."""
        if not len(self.negatives):
            return None
        heads, relations, tails = self.negatives.cpu().T
        entities = name_keys(graph.entities)
        rows = (rows_of(entities, heads), rows_of(name_keys(graph.relations), relations), rows_of(entities, tails))
        triplets = torch.stack(rows, 1).numpy()
        known = triplets[(triplets >= 0).all(1)]
        return graph.with_triplets(known) if len(known) else None

    def score_tails(
        self, encoded: Encoded, heads: Tensor, relations: Tensor, candidates: Tensor | None = None
    ) -> Tensor:
        weights = self._weights(encoded, heads, relations)  # [B, C]
        total: Tensor | None = None
        for index, (model, part) in enumerate(zip(self.models, encoded.parts, strict=True)):
            if total is None or bool((weights[:, index] != 0).any()):
                scores = weights[:, index, None] * model.score_tails(part, heads, relations, candidates)
                total = scores if total is None else total.add_(scores)
        assert total is not None
        if encoded.rejected is None:
            return total
        return _masked(total, encoded.rejected.answers(heads.cpu().numpy(), relations.cpu().numpy()), candidates)

    def score_triplets(self, encoded: Encoded, triplets: Tensor) -> Tensor:
        scores = self.contributions(encoded, triplets).sum(1)
        if encoded.rejected is None:
            return scores
        rejected = torch.from_numpy(encoded.rejected.contains(triplets.cpu().numpy())).to(scores.device)
        return scores.masked_fill(rejected, REJECTED)

    def contributions(self, encoded: Encoded, triplets: Tensor) -> Tensor:
        """The contribution of every component to the scores of triplets: [B, C]."""
        weights = self._weights(encoded, triplets[:, 0], triplets[:, 1])
        used = (weights != 0).any(0).tolist()
        scores = [
            model.score_triplets(part, triplets) if needed else weights.new_zeros(len(triplets))
            for model, part, needed in zip(self.models, encoded.parts, used, strict=True)
        ]
        return weights * torch.stack(scores, 1)

    def score_relations(
        self, encoded: Encoded, heads: Tensor, tails: Tensor, candidates: Tensor | None = None
    ) -> Tensor:
        width = encoded.num_relations if candidates is None else candidates.shape[1]
        total = self.relation_weights.new_zeros(len(heads), width)
        for index, (model, part) in enumerate(zip(self.models, encoded.parts, strict=True)):
            weight = self.relation_weights[index]
            if weight != 0:
                total = total + weight * model.score_relations(part, heads, tails, candidates)
        if encoded.rejected is None:
            return total
        between = encoded.rejected.relations_between(heads.cpu().numpy(), tails.cpu().numpy())
        return _masked(total, between, candidates)

    def edge_relevance(self, graph: KnowledgeGraph, triplet: Tensor) -> Tensor | None:
        """The weighted sum over the components that pass messages; None if none of them has a weight."""
        weights = self._graph_weights(graph)[triplet[1]]
        total: Tensor | None = None
        for weight, model in zip(weights.tolist(), self.models, strict=True):
            relevance = model.edge_relevance(graph, triplet) if weight else None
            if relevance is not None:
                layers = max(len(relevance), 0 if total is None else len(total))
                parts = [_with_layers(part, layers) for part in (total, weight * relevance) if part is not None]
                total = torch.stack(parts).sum(0)
        return total

    def _graph_weights(self, graph: KnowledgeGraph) -> Tensor:
        """Weights [2R, C] in the order of the graph's relations."""
        rows = rows_of(self.relation_keys, name_keys(graph.relations)).to(self.weights.device)
        if not len(rows) or not len(self.weights):
            return self.typical.expand(2 * graph.num_relations, -1)
        both = torch.cat([rows, torch.where(rows < 0, -1, rows + self.config.num_relations)])
        return torch.where((both >= 0)[:, None], self.weights[both], self.typical)

    def _weights(self, encoded: Encoded, heads: Tensor, relations: Tensor) -> Tensor:
        """Weights [B, C] of the components in questions (head, relation, ?)."""
        weights = encoded.weights[relations]
        for index, part in enumerate(encoded.parts):
            knows = getattr(part, "knows_entities", None)
            if knows is not None:
                lost = ~(knows[heads] & part.knows_relations[relations])
                if bool(lost.any()):
                    weights = torch.where(lost[:, None], self.fallback, weights)
                    weights[:, index] = torch.where(lost, 0.0, weights[:, index])
        return weights


def _with_layers(relevance: Tensor, layers: int) -> Tensor:
    """Relevances [L, 2E] with zeros for further layers."""
    return torch.nn.functional.pad(relevance, (0, 0, 0, layers - len(relevance)))


def with_rules(model: LinkPredictor, kind: str, entities: Sequence[float], relations: Sequence[float]) -> Mixture:
    """A model mixed with rules that are mined on each graph that it is applied to.

    Args:
        model: Trained on other graphs.
        kind: Its name in the registry.
        entities: Weights of the model and of the rules in questions about entities, the same for every graph.
        relations: The same in questions about relations.
    """
    rulebook = MODELS.load("rulebook").Config()
    parts = Component("zero-shot", kind, asdict(model.config)), Component("rules", "rulebook", asdict(rulebook))
    mixture = Mixture(MixtureConfig(parts))
    mixture.components[0] = model
    mixture.typical, mixture.fallback = torch.tensor(entities), torch.tensor(entities)
    mixture.relation_weights = torch.tensor(relations)
    return mixture


def _masked(scores: Tensor, rejected: Ragged, candidates: Tensor | None) -> Tensor:
    """Scores [B, C] with REJECTED for the rejected answers of each row."""
    rows = torch.from_numpy(rejected.rows).to(scores.device)
    values = torch.from_numpy(rejected.values.astype(np.int64)).to(scores.device)
    if candidates is None:
        scores[rows, values] = REJECTED
        return scores
    hits = candidates.to(scores.device)[rows] == values[:, None]  # [K, C]
    row, column = hits.nonzero(as_tuple=True)
    scores[rows[row], column] = REJECTED
    return scores
