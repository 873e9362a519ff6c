"""Graphs on the server: each is read once, and has its available models and the decisions about it."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anykg.atomic import write_json
from anykg.errors import DataError, InputError, UnknownName, nearest
from anykg.io.catalog import load_graph, locate
from anykg.models.folders import DEFAULT_MODEL
from anykg.models.store import digest_of, load_model
from anykg.web.decisions import Decisions
from anykg.web.explore import degrees, named
from anykg.web.search import SearchIndex, entity_index, relation_index

if TYPE_CHECKING:
    from anykg.graph.graph import KnowledgeGraph
    from anykg.models.base import LinkPredictor

MOST_GRAPHS = 16
CHOICE_FILE = "chosen.json"
log = logging.getLogger("anykg.web")
SHOWN_RELATIONS = 1000
EXAMPLES, MOST_TRIED = 2, 16
SEVERAL = 1.5
"""Above this number of facts per entity, a relation usually has several answers."""


@dataclass
class Served:
    """One graph."""

    id: str
    name: str
    source: str
    """Path, address or dataset name that it was read from."""
    graph: KnowledgeGraph
    decisions: Decisions
    models: dict[str, str]
    """The available models: display name and source of each."""
    model_name: str
    model: LinkPredictor
    guard: threading.Lock = field(default_factory=threading.Lock)
    _digest: tuple[Any, str] = (None, "")

    @property
    def entities(self) -> SearchIndex:
        """Search over entities."""
        return self.graph.derive(entity_index)

    @property
    def relations(self) -> SearchIndex:
        """Search over relations."""
        return self.graph.derive(relation_index)

    def use(self, name: str) -> None:
        """Switch to another of the models."""
        if name not in self.models:
            raise UnknownName("model", name, list(self.models))
        with self.guard:
            if name != self.model_name:
                self.model, self.model_name = load_model(self.models[name]), name

    @property
    def model_digest(self) -> str:
        """A hash of the current model, for decisions."""
        if self._digest[0] is not self.model:
            self._digest = (self.model, digest_of(self.model))
        return self._digest[1]

    @property
    def model_source(self) -> str:
        """Where the current model is loaded from."""
        return self.models[self.model_name]

    def entity(self, name: str) -> int:
        """The id of an entity by name or label."""
        return self.graph.entities.index(name)

    def relation(self, name: str) -> int:
        """The id of a relation by name or label."""
        return self.graph.relations.index(name)

    def summary(self) -> dict[str, Any]:
        """The summary shown in the list of graphs."""
        return {
            "id": self.id,
            "name": self.name,
            "entities": self.graph.num_entities,
            "relations": self.graph.num_relations,
            "facts": self.graph.num_triplets,
            "model": self.model_name,
        }

    def detail(self) -> dict[str, Any]:
        """The content of the graph's page."""
        counts = np.bincount(self.graph.triplets[:, 1], minlength=self.graph.num_relations)
        order = np.argsort(-counts, kind="stable")[:SHOWN_RELATIONS]
        degree = self.graph.derive(degrees)
        return self.summary() | {
            "digest": self.graph.digest,
            "source": self.source,
            "relation_list": [named(self.graph.relations, int(r)) | {"facts": int(counts[r])} for r in order],
            "examples": self.graph.derive(examples),
            "first_entity": self.graph.entities[int(degree.argmax())] if len(degree) else None,
            "decisions_file": str(self.decisions.path),
            "models": [{"id": name, "name": name} for name in self.models],
        }


class Collection:
    """The graphs of a server, by id."""

    def __init__(self, data: Path, *, model: str | None = None, decisions: Path | None = None) -> None:
        """`data` is a folder for the files of graphs without their own folder."""
        self.data, self._decisions = data, decisions
        self._model_name = model or DEFAULT_MODEL
        self._model_is_given = model is not None
        self._model: LinkPredictor | None = None
        self._graphs: dict[str, Served] = {}
        self._guard = threading.Lock()

    def add(
        self, source: str, *, name: str | None = None, graph: KnowledgeGraph | None = None, **reading: Any
    ) -> Served:
        """Read a graph and serve it; a graph that is already served is returned unchanged."""
        if len(self._graphs) >= MOST_GRAPHS:
            raise InputError(f"At most {MOST_GRAPHS} graphs can be open at once; restart the server with fewer.")
        located = locate(source)
        file = Path(located.path)
        path = str(file.resolve()) if file.exists() else source
        if graph is None:
            graph = load_graph(source, **reading)
        if not len(graph):
            raise DataError(f"{source}: the graph has no facts.")
        with self._guard:
            if self._model is None:
                self._model = load_model(self._model_name)
            title = name or located.name
            graph.name = title
            identifier = _free_name(title, self._graphs)
            kept = self._decisions if self._decisions and not self._graphs else self._decisions_of(path, title)
            served = Served(
                id=identifier,
                name=title,
                source=path,
                graph=graph,
                decisions=Decisions(kept),
                models={Path(self._model_name).name: self._model_name},
                model_name=Path(self._model_name).name,
                model=self._model,
            )
            for fitted in self.fitted(graph.digest):
                served.models[fitted.name] = str(fitted)
            if not self._model_is_given:
                self._use_fitted(served)
            self._graphs[identifier] = served
        return served

    def use(self, served: Served, name: str) -> None:
        """Switch to another of a graph's models, persistently across restarts."""
        served.use(name)
        if len(served.models) > 1:
            write_json(self.fitted_folder(served.graph.digest) / CHOICE_FILE, {"model": name})

    def _use_fitted(self, served: Served) -> None:
        """Use the model chosen last, or the one fitted last to this graph."""
        folder = self.fitted_folder(served.graph.digest)
        try:
            chosen = json.loads((folder / CHOICE_FILE).read_text(encoding="utf-8"))["model"]
        except (OSError, ValueError, KeyError, TypeError):
            chosen = None
        name = chosen if chosen in served.models else list(served.models)[-1]
        try:
            served.use(name)
        except InputError as error:
            log.warning("%s cannot be used, %s answers: %s", name, served.model_name, error)

    def get(self, name: str) -> Served:
        """The graph of that id; raises `UnknownName` with near matches."""
        with self._guard:
            if name in self._graphs:
                return self._graphs[name]
            known = list(self._graphs)
        raise UnknownName("graph", name, nearest(name, known) or known[:3])

    def __iter__(self) -> Iterator[Served]:
        with self._guard:
            return iter(list(self._graphs.values()))

    def of_digest(self, digest: str) -> list[Served]:
        """The graphs with that content."""
        return [served for served in self if served.graph.digest == digest]

    def fitted_folder(self, digest: str) -> Path:
        """Where models that were fitted to a graph are kept."""
        return self.data / "fitted" / digest[:16]

    def fitted(self, digest: str) -> list[Path]:
        """The models that were fitted to a graph, oldest first."""
        folders = (path.parent for path in self.fitted_folder(digest).glob("fitted-*/model.json"))
        return sorted(folders, key=lambda path: (len(path.name), path.name))  # fitted-10 comes after fitted-9

    def _decisions_of(self, path: str, title: str) -> Path:
        """Next to the graph's file; for datasets and uploads, in the data folder."""
        file = Path(path)
        inside = self.data in file.parents or "site-packages" in file.parts or file.parent.name == "embedded"
        if file.is_file() and not inside:
            return file.with_name(f"{_stem(file)}.decisions.jsonl")
        mark = blake2b(path.encode(), digest_size=4).hexdigest()
        return self.data / "decisions" / f"{_slug(title)}-{mark}.jsonl"


def examples(graph: KnowledgeGraph) -> list[dict[str, Any]]:
    """Questions to start with, about frequent relations and entities that are neither hubs nor leaves.

    First open questions with usually several answers, so that one may be missing; then known facts with usually one
    answer, to be hidden and predicted. For `graph.derive`.
    """
    counts = np.bincount(graph.triplets[:, 1], minlength=graph.num_relations)
    degree = graph.derive(degrees)
    several: list[dict[str, Any]] = []
    single: list[dict[str, Any]] = []
    for relation in np.argsort(-counts, kind="stable")[:MOST_TRIED]:
        facts = graph.triplets[graph.triplets[:, 1] == relation]
        if not len(facts):
            break
        heads, tails = (len(np.unique(facts[:, end])) for end in (0, 2))
        end = 0 if heads >= tails else 2
        row = facts[np.argsort(degree[facts[:, end]], kind="stable")[int(0.8 * (len(facts) - 1))]]
        names = (
            named(graph.entities, int(row[0])),
            named(graph.relations, int(relation)),
            named(graph.entities, int(row[2])),
        )
        whole = dict(zip(("head", "relation", "tail"), names, strict=True))
        if len(facts) >= SEVERAL * max(heads, tails):
            several.append(whole | {"tail" if end == 0 else "head": None})
        else:
            single.append(whole)
    known = single[:EXAMPLES]
    if not several:  # ask for an end of them instead
        several = [fact | {"tail": None} for fact in single]
    return several[:EXAMPLES] + known


def _stem(path: Path) -> str:
    """The file's name without its extensions."""
    return (
        re.sub(r"(\.(tsv|csv|txt|nt|nq|ttl|rdf|jsonl|ndjson|json|parquet|psv|tab|gz|zst))+$", "", path.name)
        or path.name
    )


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40] or "graph"


def _free_name(title: str, taken: dict[str, Served]) -> str:
    base = name = _slug(_stem(Path(title)))
    number = 2
    while name in taken:
        name = f"{base}-{number}"
        number += 1
    return name
