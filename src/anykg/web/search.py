"""Search names as they are typed: exact, prefix, word, substring, then similar spelling.

Text is compared without case and accents. Matches are sorted by tier, then by number of facts. Names of similar
spelling share byte trigrams of their words with the query; the inverted index for that is built on first use.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from typing import NamedTuple
from unicodedata import combining, normalize

import numpy as np
import polars as pl

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary

LONGEST_QUERY = 200
LEAST_OVERLAP = 0.5
"""Share of the query's trigrams below which a name is not similar."""
MOST_SIMILAR = 50
KEPT_QUERIES, KEPT_MATCHES = 256, 4_000_000
"""Upper bounds on the number of cached queries, and on the total number of their matches."""
WORD_BREAKS = r"[\s_\-/#:.,()'\"|]"


class Page(NamedTuple):
    """One page of matches."""

    ids: np.ndarray  # int32 [M]
    total: int
    similar: bool
    """Whether these are similar spellings because no name contains the text."""


def folded(text: str) -> str:
    """Text without case and accents."""
    if text.isascii():
        return text.lower()
    return "".join(part for part in normalize("NFKD", text.casefold()) if not combining(part))


class SearchIndex:
    """The names and labels of one vocabulary."""

    def __init__(self, vocabulary: Vocabulary, counts: np.ndarray) -> None:
        """`counts` [N] are the facts of each name."""
        self.counts = counts
        columns = [vocabulary.names]
        if vocabulary.labels is not None:
            columns.append(vocabulary.labels.fill_null(""))
        self._texts = [pl.Series([folded(text) for text in column.to_list()], dtype=pl.String) for column in columns]
        self._guard = threading.Lock()
        self._trigrams: list[_Trigrams] | None = None
        self._kept: OrderedDict[str, tuple[np.ndarray, bool]] = OrderedDict()
        self._kept_matches = 0

    def search(self, query: str, *, offset: int = 0, limit: int = 20) -> Page:
        """Matches `offset` to `offset + limit`; an empty query lists everything, most facts first."""
        wanted = folded(query.strip()[:LONGEST_QUERY])
        with self._guard:
            kept = self._kept.get(wanted)
            if kept is not None:
                self._kept.move_to_end(wanted)
        if kept is None:
            matches, similar = self._matches(wanted)
            kept = matches.astype(np.int32), similar
            self._keep(wanted, kept)
        ids, similar = kept
        return Page(ids[offset : offset + limit], len(ids), similar)

    def _keep(self, wanted: str, kept: tuple[np.ndarray, bool]) -> None:
        """Cache the matches of a query, and evict the least recently used queries."""
        with self._guard:
            if wanted in self._kept:  # another thread was faster
                return
            self._kept[wanted] = kept
            self._kept_matches += len(kept[0])
            while len(self._kept) > KEPT_QUERIES or (self._kept_matches > KEPT_MATCHES and len(self._kept) > 1):
                self._kept_matches -= len(self._kept.popitem(last=False)[1][0])

    def _matches(self, wanted: str) -> tuple[np.ndarray, bool]:
        if not wanted:
            return np.argsort(-self.counts, kind="stable"), False
        tiers = np.full(len(self.counts), 9, np.int8)
        for texts in self._texts:
            np.minimum(tiers, _tiers(texts, wanted), out=tiers)
        matches = np.flatnonzero(tiers < 9)
        if len(matches):
            lengths = self._texts[-1].str.len_bytes().to_numpy()[matches]
            return matches[np.lexsort((lengths, -self.counts[matches], tiers[matches]))], False
        return self._similar(wanted), True

    def _similar(self, wanted: str) -> np.ndarray:
        with self._guard:
            if self._trigrams is None:
                self._trigrams = [_Trigrams(texts) for texts in self._texts]
        shares = np.max([trigrams.shares(wanted) for trigrams in self._trigrams], axis=0)  # [N, 2]
        near = np.flatnonzero(shares[:, 0] >= LEAST_OVERLAP)
        order = np.lexsort((-self.counts[near], -shares[near, 1], -shares[near, 0]))
        best: np.ndarray = near[order][:MOST_SIMILAR]
        return best


def entity_index(graph: KnowledgeGraph) -> SearchIndex:
    """The index of a graph's entities; for `graph.derive`."""
    ends = np.concatenate([graph.triplets[:, 0], graph.triplets[:, 2]])
    return SearchIndex(graph.entities, np.bincount(ends, minlength=graph.num_entities))


def relation_index(graph: KnowledgeGraph) -> SearchIndex:
    """The index of a graph's relations; for `graph.derive`."""
    return SearchIndex(graph.relations, np.bincount(graph.triplets[:, 1], minlength=graph.num_relations))


def _tiers(texts: pl.Series, wanted: str) -> np.ndarray:
    """0 the same, 1 starts with it, 2 a word starts with it, 3 contains it, 9 does not. int8 [N]."""
    tiers = np.full(len(texts), 9, np.int8)
    inside = texts.str.contains(wanted, literal=True).to_numpy()
    at = np.flatnonzero(inside)
    if not len(at):
        return tiers
    some = texts.gather(at)
    tier = np.full(len(at), 3, np.int8)
    tier[some.str.contains(WORD_BREAKS + re.escape(wanted)).to_numpy()] = 2
    tier[some.str.starts_with(wanted).to_numpy()] = 1
    tier[(some == wanted).to_numpy()] = 0
    tiers[at] = tier
    return tiers


class _Trigrams:
    """An inverted index of byte trigrams: sorted keys, and the text of each."""

    def __init__(self, texts: pl.Series) -> None:
        padded = _padded(texts)
        blob = np.frombuffer("".join(padded.to_list()).encode(), np.uint8).astype(np.uint32)
        lengths = padded.str.len_bytes().to_numpy().astype(np.int64)
        owner = np.repeat(np.arange(len(texts), dtype=np.int32), lengths)
        whole = owner[:-2] == owner[2:]
        keys, owners = _keys(blob)[whole], owner[:-2][whole]
        order = np.argsort(keys, kind="stable")
        self._keys, self._owners = keys[order], owners[order]
        self._sizes = lengths - 2

    def shares(self, wanted: str) -> np.ndarray:
        """The share of the trigrams of `wanted` that each text has, and of the trigrams of both (Dice). [N, 2]."""
        data = np.frombuffer(_padded(pl.Series([wanted]))[0].encode(), np.uint8).astype(np.uint32)
        keys = np.unique(_keys(data))
        first, last = np.searchsorted(self._keys, keys), np.searchsorted(self._keys, keys, side="right")
        hits = [np.unique(self._owners[a:b]) for a, b in zip(first, last, strict=True)]
        common = np.bincount(np.concatenate(hits), minlength=len(self._sizes))
        return np.stack([common / len(keys), 2 * common / (self._sizes + len(keys))], axis=1)


def _padded(texts: pl.Series) -> pl.Series:
    """Add two spaces before every word and one after the last, so that beginnings of words have more weight."""
    return "  " + texts.str.replace_all(WORD_BREAKS, "  ") + " "


def _keys(data: np.ndarray) -> np.ndarray:
    """Each three bytes as a number. uint32 [len - 2]."""
    keys: np.ndarray = data[:-2] << 16 | data[1:-1] << 8 | data[2:]
    return keys
