"""Rules with named relations as a model: a candidate's score is the log-odds that one of its best rules is right.

Rules are mined on a graph (`rules.named`) and stored with their names, so a fitted rulebook works on any graph that
shares names with the one it was mined on, such as a later version of it. Without its own rules, the model mines those
of the given graph, unless it is very large. In both cases, relabelling a graph relabels the rules and leaves the scores
unchanged.

The confidences of the five best rules that fire are combined by noisy-or; ties are broken by the next rules, then by
the candidate's popularity. A fact is never used to predict itself: no path leads through it, and the counts of a rule
exclude it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numba
import numpy as np
import polars as pl
import torch
from torch import Tensor

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.models.base import LinkPredictor, Symmetry
from anykg.models.recipe import Recipe
from anykg.progress import Progress
from anykg.rules.index import Index, SortedRules, path_order, rule_index, sort_rules
from anykg.rules.kept import kept_rules
from anykg.rules.kernels.joins import NONE
from anykg.rules.kernels.named_queries import PathOrder, score_pairs, score_queries, score_triplets
from anykg.rules.named import Mining, NamedRules, empty_rules, mine_named

CHUNK = 32
"""Queries scored per task, with one set of buffers."""
TIE_BREAK = 1e-3
"""Weight of the rules after the best five, and of the candidate's popularity."""
FLOOR = 1e-4
"""-log(1 - p) of a candidate for which no rule fires."""


@dataclass(frozen=True)
class RulebookConfig(Mining):
    """Settings for mining and combining rules."""

    largest: int = 300_000
    """Graphs of up to this many facts are mined if there are no rules; on larger ones, all candidates have the same
    score."""
    decay: float = 0.5
    """Weight of the n-th best rule relative to the one before it; 1 is noisy-or."""
    sizes: tuple[int, ...] = ()
    """Numbers of path rules, constant rules and bytes of names, of a fitted rulebook."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "sizes", tuple(self.sizes))  # a list in JSON


@dataclass(frozen=True, eq=False)
class EncodedRules:
    """A graph with the rules that apply to it."""

    graph: KnowledgeGraph
    index: Index | None
    """None if the graph is too large to be mined."""

    @property
    def num_entities(self) -> int:
        """N."""
        return self.graph.num_entities

    @property
    def num_relations(self) -> int:
        """R."""
        return self.graph.num_relations

    @cached_property
    def path_order(self) -> PathOrder:
        """The path rules for questions about relations."""
        assert self.index is not None
        return path_order(self.index[2])


class Rulebook(LinkPredictor):
    """Noisy-or over the best rules."""

    Config = RulebookConfig
    config: RulebookConfig
    recipe = Recipe(epochs=0)
    symmetry = Symmetry.EXACT
    paths: Tensor
    path_counts: Tensor
    constants: Tensor
    constant_counts: Tensor
    names: Tensor

    def __init__(self, config: RulebookConfig = RulebookConfig()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.config = config
        paths, constants, names = config.sizes or (0, 0, 0)
        self.register_buffer("paths", torch.zeros(paths, 4, dtype=torch.int32))
        self.register_buffer("path_counts", torch.zeros(paths, 3, dtype=torch.int64))
        self.register_buffer("constants", torch.zeros(constants, 4, dtype=torch.int32))
        self.register_buffer("constant_counts", torch.zeros(constants, 2, dtype=torch.int64))
        self.register_buffer("names", torch.zeros(names, dtype=torch.uint8))
        self._last_sorted: tuple[Vocabulary, Vocabulary, SortedRules] | None = None

    @classmethod
    def of(cls, rules: NamedRules, graph: KnowledgeGraph, config: RulebookConfig = RulebookConfig()) -> Rulebook:  # noqa: B008
        """A rulebook with rules mined on `graph`, by name."""
        entities, constants = _numbered(rules.constants, (1, 3))
        names = _packed(graph.relations.names, graph.entities.names.gather(entities))
        sizes = (len(rules.paths), len(rules.constants), len(names))
        model = cls(replace(config, sizes=sizes))
        model.paths = torch.from_numpy(rules.paths)
        model.path_counts = torch.from_numpy(rules.path_counts)
        model.constants = torch.from_numpy(constants)
        model.constant_counts = torch.from_numpy(rules.constant_counts)
        model.names = torch.from_numpy(names)
        return model.eval()

    @property
    def fitted(self) -> bool:
        """Whether it has rules of its own."""
        return bool(self.config.sizes)

    def mines(self, graph: KnowledgeGraph) -> bool:
        """Whether the rules for a graph are mined on it."""
        return not self.fitted and len(graph) <= self.config.largest

    def rules(self, graph: KnowledgeGraph, seed: int = 0) -> NamedRules:
        """The rules that apply to a graph, in its ids: those of its own whose names the graph has, or newly mined."""
        if not self.fitted:
            return kept_rules(graph, self.config, seed) if self.mines(graph) else empty_rules()
        relations, entities = _unpacked(self.names.numpy())
        relation_ids, entity_ids = _ids(graph.relations, relations), _ids(graph.entities, entities)
        kinds = np.concatenate([relation_ids, np.where(relation_ids == NONE, NONE, relation_ids + graph.num_relations)])
        paths, constants = self.paths.numpy(), self.constants.numpy()
        absent = paths == NONE
        bound = np.where(absent, NONE, kinds[paths])
        keep = ((bound != NONE) | absent).all(1)
        named = (
            np.stack(
                [
                    kinds[constants[:, 0]],
                    entity_ids[constants[:, 1]],
                    kinds[constants[:, 2]],
                    np.where(constants[:, 3] == NONE, NONE, entity_ids[constants[:, 3]]),
                ],
                axis=1,
            )
            if len(constants)
            else constants
        )
        kept = (named[:, :3] != NONE).all(1) & ((named[:, 3] != NONE) | (constants[:, 3] == NONE))
        return NamedRules(
            bound[keep].astype(np.int32),
            self.path_counts.numpy()[keep],
            named[kept].astype(np.int32),
            self.constant_counts.numpy()[kept],
        )

    def fixed_to(self, graph: KnowledgeGraph) -> Rulebook:
        if self.fitted:
            return self
        if self.mines(graph):
            return Rulebook.of(self.rules(graph), graph, self.config)
        return Rulebook(replace(self.config, largest=0)).eval()  # parts of the graph are not mined either

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> EncodedRules:
        if self.fitted:
            return EncodedRules(graph, rule_index(graph, self._sorted(graph), self.config.prior))
        return EncodedRules(graph, graph.derive(_mined, self.config, seed) if self.mines(graph) else None)

    def _sorted(self, graph: KnowledgeGraph) -> SortedRules:
        """The rules of its own, in the ids of a graph; once for all graphs with the same vocabularies."""
        last = self._last_sorted  # read once: other threads may ask about other graphs
        if last is None or last[0] is not graph.entities or last[1] is not graph.relations:
            last = graph.entities, graph.relations, sort_rules(self.rules(graph), graph.num_relations)
            self._last_sorted = last
        return last[2]

    def score_tails(
        self, encoded: EncodedRules, heads: Tensor, relations: Tensor, candidates: Tensor | None = None
    ) -> Tensor:
        queries = np.stack([heads.cpu().numpy(), relations.cpu().numpy()], axis=1).astype(np.int64)
        unique, row = np.unique(queries, axis=0, return_inverse=True)
        evidence = np.zeros((len(unique), encoded.num_entities), np.float32)
        self._fill(score_queries, encoded.index, unique, evidence, CHUNK)
        scores, index = torch.from_numpy(evidence), torch.from_numpy(row.reshape(-1))
        if candidates is None:
            return _log_odds(scores)[index].to(heads.device)
        return _log_odds(scores[index[:, None], candidates.cpu()]).to(heads.device)

    def score_triplets(self, encoded: EncodedRules, triplets: Tensor) -> Tensor:
        evidence = np.zeros(len(triplets), np.float32)
        asked = triplets.cpu().numpy().astype(np.int64)
        self._fill(score_triplets, encoded.index, asked, evidence, _chunk(encoded, len(asked)))
        return _log_odds(torch.from_numpy(evidence)).to(triplets.device)

    def score_relations(
        self, encoded: EncodedRules, heads: Tensor, tails: Tensor, candidates: Tensor | None = None
    ) -> Tensor:
        pairs = np.stack([heads.cpu().numpy(), tails.cpu().numpy()], axis=1).astype(np.int64)
        evidence = np.zeros((len(pairs), encoded.num_relations), np.float32)
        index = None if encoded.index is None else (*encoded.index, encoded.path_order)
        self._fill(score_pairs, index, pairs, evidence, _chunk(encoded, len(pairs)))
        scores = torch.from_numpy(evidence)
        return _log_odds(scores if candidates is None else scores.gather(1, candidates.cpu())).to(heads.device)

    def _fill(
        self, kernel: Callable[..., None], index: tuple[Any, ...] | None, asked: np.ndarray, out: np.ndarray, chunk: int
    ) -> None:
        """Fill `out` with -log P(no rule holds), one chunk of rows per task; without rules it stays as it is."""
        if index is None:
            return
        settings = (self.config.decay, TIE_BREAK, TIE_BREAK)

        def run(first: int) -> None:
            rows = slice(first, first + chunk)
            kernel(*index, asked[rows], settings, out[rows])

        with ThreadPoolExecutor(numba.config.NUMBA_NUM_THREADS) as pool:
            list(pool.map(run, range(0, len(asked), chunk)))


def _chunk(encoded: EncodedRules, rows: int) -> int:
    """Rows per task, of kernels that clear buffers of N entries for each task."""
    workers: int = numba.config.NUMBA_NUM_THREADS
    return min(max(CHUNK, encoded.num_entities // 64), max(1, -(-rows // workers)))


def _log_odds(evidence: Tensor) -> Tensor:
    """log(p / (1 - p)) of -log(1 - p), with a floor."""
    return torch.log(torch.expm1(evidence + FLOOR))


def fit_rulebook(
    graph: KnowledgeGraph,
    seconds: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    config: RulebookConfig = RulebookConfig(),  # noqa: B008 - frozen
) -> Rulebook:
    """Mine the rules of a graph for about `seconds` and keep them with their names."""
    return Rulebook.of(mine_named(graph, config, seconds=seconds, seed=seed, progress=progress), graph, config)


def _mined(graph: KnowledgeGraph, config: RulebookConfig, seed: int) -> Index:
    """The index of the rules that are mined on a graph."""
    return rule_index(graph, sort_rules(kept_rules(graph, config, seed), graph.num_relations), config.prior)


def _numbered(rows: np.ndarray, columns: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The distinct entities in some columns, and the rows with their numbers in place of ids."""
    entities = np.unique(rows[:, list(columns)])
    entities = entities[entities != NONE]
    result = rows.copy()
    for column in columns:
        result[:, column] = np.where(rows[:, column] == NONE, NONE, np.searchsorted(entities, rows[:, column]))
    return entities, result


def _packed(*lists: pl.Series) -> np.ndarray:
    """Names as bytes: JSON lists."""
    import json

    return np.frombuffer(json.dumps([names.to_list() for names in lists], ensure_ascii=False).encode(), np.uint8).copy()


def _unpacked(packed: np.ndarray) -> list[pl.Series]:
    import json

    return [pl.Series(names, dtype=pl.String) for names in json.loads(packed.tobytes())]


def _ids(vocabulary: Vocabulary, names: pl.Series) -> np.ndarray:
    """Ids of names, NONE for unknown ones."""
    table = pl.DataFrame({"name": vocabulary.names, "id": np.arange(len(vocabulary), dtype=np.int32)})
    ids = pl.DataFrame({"name": names}).join(table, on="name", how="left", maintain_order="left")["id"]
    return ids.fill_null(NONE).to_numpy().astype(np.int32)
