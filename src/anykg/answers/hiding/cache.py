"""Cache the answers about hidden facts, so that a check need not be repeated.

They are kept in the user's cache under the digests of graph, model and settings, and of the code of anykg. A graph in
which a few per cent of the facts changed since it was checked reuses the answers about its earlier version, like
calibrations (`answers.calibrating.calibration`), except for facts that no longer exist.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import fields, replace
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
import polars as pl

from anykg.answers.calibrating.cache import SIMILAR
from anykg.answers.hiding.recovery import Recovery
from anykg.atomic import atomic_path
from anykg.errors import InputError
from anykg.graph import versions
from anykg.graph.graph import HEAD, RELATION, TAIL, KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.provenance import source_digest

MOST = 300
"""Number of cached files; the oldest are removed first."""
_NAMES = [field.name for field in fields(Recovery)]


class Recalled(NamedTuple):
    """Answers from earlier checks."""

    found: list[Recovery]
    """The answers of each model, in order."""
    share: float
    """Share of the facts hidden at a time."""
    differing: int
    """Number of facts in which the graph differs from the one that was checked."""


def keys_of(models: list[str], *settings: object) -> list[str]:
    """Cache keys for the answers of models, from their digests, reading budgets and settings."""
    common = f"{settings} {source_digest()}"
    return [blake2b(f"{digest} {common}".encode(), digest_size=12).hexdigest() for digest in models]


def recall(graph: KnowledgeGraph, models: list[LinkPredictor], keys: list[str]) -> Recalled | None:
    """Answers about this graph, or about the most similar earlier version; None if there are none of all models."""
    if not _ours(models):
        return None
    exact = _load_all(graph, graph.digest[:16], keys)
    if exact is not None:
        return exact._replace(differing=0)
    best: tuple[int, str] | None = None
    for file in _folder().glob(f"*-{keys[0]}.npz"):
        earlier = file.name.partition("-")[0]
        sketch = versions.load(_folder() / f"{earlier}.npy")
        if sketch is None:
            continue
        differing = max(versions.difference(graph.derive(versions.sketch_of), sketch), 1)
        if differing <= SIMILAR * len(graph) and (best is None or differing < best[0]):
            best = differing, earlier
    if best is None:
        return None
    stored = _load_all(graph, best[1], keys)
    return None if stored is None else stored._replace(differing=best[0])


def keep(
    graph: KnowledgeGraph, models: list[LinkPredictor], keys: list[str], found: list[Recovery], share: float
) -> None:
    """Cache answers for later checks; a cache that cannot be written is ignored."""
    if not _ours(models):
        return
    with suppress(InputError, OSError):
        versions.save(graph.derive(versions.sketch_of), _folder() / f"{graph.digest[:16]}.npy")
        for key, one in zip(keys, found, strict=True):
            used = np.unique(np.concatenate([_entities(one.facts), _entities(one.best_facts), _answers(one)]))
            arrays = {name: getattr(one, name) for name in _NAMES} | {
                "share": np.array(share),
                "entities": used,
                "entity_names": np.array(graph.entities.gather(used).to_list(), dtype=np.str_),
                "relation_names": np.array(graph.relations.names.to_list(), dtype=np.str_),
            }
            with atomic_path(_folder() / f"{graph.digest[:16]}-{key}.npz") as temporary, temporary.open("wb") as file:
                np.savez_compressed(file, **arrays)
        for old in sorted(_folder().glob("*.np?"), key=os.path.getmtime)[:-MOST]:
            old.unlink(missing_ok=True)


def _load_all(graph: KnowledgeGraph, earlier: str, keys: list[str]) -> Recalled | None:
    found, share = [], 0.0
    for key in keys:
        try:
            with np.load(_folder() / f"{earlier}-{key}.npz", allow_pickle=False) as kept:
                one, share = Recovery(**{name: kept[name] for name in _NAMES}), float(kept["share"])
                if graph.digest[:16] != earlier:
                    names = (kept["entity_names"].tolist(), kept["relation_names"].tolist())
                    one = _moved(one, graph, kept["entities"], *names)
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile):
            return None
        if not len(one.facts):
            return None
        found.append(one)
    return Recalled(found, share, 0)


def _moved(
    found: Recovery, graph: KnowledgeGraph, entities: np.ndarray, entity_names: list[str], relation_names: list[str]
) -> Recovery:
    """Answers with the ids of another version of the graph, without those about facts that it does not have."""
    entity_ids, relation_ids = _ids(graph.entities.names, entity_names), _ids(graph.relations.names, relation_names)

    def moved(triplets: np.ndarray) -> np.ndarray:
        ends = [entity_ids[np.searchsorted(entities, triplets[:, column])] for column in (HEAD, TAIL)]
        return np.stack([ends[0], relation_ids[triplets[:, RELATION]], ends[1]], axis=1)

    facts, best = moved(found.facts), moved(found.best_facts)
    here = np.asarray((facts >= 0).all(1)) & graph.contains(np.maximum(facts, 0))
    lists = (best >= 0).all(1)
    about = found.columns == RELATION
    answers = np.full(len(facts), -1)
    given = found.answers >= 0
    answers[given & about] = relation_ids[found.answers[given & about]]
    answers[given & ~about] = entity_ids[np.searchsorted(entities, found.answers[given & ~about])]
    whole = replace(found, facts=facts, best_facts=best, answers=answers)
    return Recovery(**{name: getattr(whole, name)[lists if name.startswith("best_") else here] for name in _NAMES})


def _ids(vocabulary: pl.Series, names: list[str]) -> np.ndarray:
    """The ids of names, -1 for unknown ones."""
    table = pl.DataFrame({"name": vocabulary, "id": np.arange(len(vocabulary))})
    wanted = pl.DataFrame({"name": pl.Series(names, dtype=pl.String)})
    return np.asarray(wanted.join(table, on="name", how="left", maintain_order="left")["id"].fill_null(-1).to_numpy())


def _entities(triplets: np.ndarray) -> np.ndarray:
    return np.asarray(triplets[:, [HEAD, TAIL]].ravel())


def _answers(found: Recovery) -> np.ndarray:
    """The entities among the first answers."""
    return np.asarray(found.answers[(found.answers >= 0) & (found.columns != RELATION)])


def _folder() -> Path:
    from platformdirs import user_cache_path

    return Path(user_cache_path("anykg")) / "checks"


def _ours(models: list[LinkPredictor]) -> bool:
    """Whether all models are part of anykg: other code may change without notice."""
    parts = (type(part).__module__.partition(".")[0] for model in models for part in model.modules())
    return set(parts) <= {"anykg", "torch"}
