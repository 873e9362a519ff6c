"""Run work in parts, one after another in this process or on a cluster (`anykg.cluster`).

A part is a module-level function, called with the subject of the work (`Subject`), the arguments common to all parts,
and its own arguments; it returns arrays. The parts do not depend on the number of workers, and their results are used
in order, so results are bitwise reproducible for a fixed number of threads per worker. Finished parts can be cached on
disk, so that an interrupted run resumes.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from anykg import __version__
from anykg.atomic import atomic_path
from anykg.cluster import RETRIES, Cluster, SharedFile
from anykg.errors import DataError, InputError, Interrupted, SettingError
from anykg.evaluation.ranking import Best
from anykg.evaluation.reading import best_answers, encode
from anykg.evaluation.scoring import device_of
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.progress import Progress, ignore
from anykg.provenance import source_digest

SLICE = 64
"""Questions per part."""
QUEUED, AHEAD = 1, 4
"""Upper bounds per worker on queued parts, and on finished parts that are waiting for an earlier one."""
FORGET_DAYS = 14
"""How long the parts of an interrupted run are kept."""

Arrays = dict[str, np.ndarray]


class Subject:
    """The subject of the work: a graph, a model, and the number of facts read per question (`evaluation.reading`)."""

    def __init__(self, graph: KnowledgeGraph, model: LinkPredictor | None = None, budget: int | None = None) -> None:
        self.graph, self.budget = graph, budget
        self._model = model
        self._rest: tuple[str, Subject] | None = None
        self.progress: Progress = ignore
        """The progress callback of parts computed in this process."""

    @property
    def model(self) -> LinkPredictor:
        """The model, if there is one."""
        assert self._model is not None
        return self._model

    @cached_property
    def encoded(self) -> Any:
        """The model's encoding of the graph."""
        return encode(self.model, self.graph, self.budget)

    def best_answers(self, questions: np.ndarray, **how: Any) -> Best:
        """Like `evaluation.reading.best_answers`."""
        return best_answers(self.model, self.graph, questions, encoded=self.encoded, budget=self.budget, **how)

    def without(self, rows: np.ndarray, rest: KnowledgeGraph | None = None) -> Subject:
        """The same without the facts at rows [H], which are hidden; `rest` is that graph, if there is one already.

        The last one is kept: parts with the same hidden facts follow each other.
        """
        key = blake2b(np.ascontiguousarray(rows).data, digest_size=16).hexdigest()
        if self._rest is None or self._rest[0] != key:
            if rest is None:
                keep = np.ones(len(self.graph), bool)
                keep[rows] = False
                rest = self.graph.subset(keep)
            self._rest = key, Subject(rest, self._model, self.budget)
        return self._rest[1]


Function = Callable[..., Arrays]
"""Called with the subject, the common arguments, and the arguments of a part."""


class Store:
    """Finished parts in the user's cache, under a hash of everything that they depend on."""

    def __init__(self, *identity: object) -> None:
        from platformdirs import user_cache_path

        content = blake2b(source_digest().encode(), digest_size=16)
        for one in identity:
            array = one if isinstance(one, np.ndarray) else np.frombuffer(repr(one).encode(), np.uint8)
            content.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
        parent = Path(user_cache_path("anykg")) / "work"
        self.folder = parent / content.hexdigest()
        for old in parent.glob("*"):
            with suppress(OSError):
                if time.time() - old.stat().st_mtime > FORGET_DAYS * 86400:
                    shutil.rmtree(old, ignore_errors=True)

    def indices(self) -> set[int]:
        """The indices of the stored parts."""
        return {int(file.stem) for file in self.folder.glob("*.npz") if file.stem.isdecimal()}

    def load(self, index: int) -> Arrays | None:
        """The arrays of a part; None if they are missing or unreadable."""
        try:
            with np.load(self._file(index), allow_pickle=False) as kept:
                return dict(kept)
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None

    def save(self, index: int, arrays: Arrays) -> None:
        """Store the arrays of a part; a cache that cannot be written is ignored."""
        with suppress(InputError), atomic_path(self._file(index)) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    def clear(self) -> None:
        """Remove all parts, when the work is done."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, index: int) -> Path:
        return self.folder / f"{index}.npz"


def results(
    function: Function,
    subject: Subject,
    parts: Sequence[tuple[Any, ...]],
    *,
    common: Any = None,
    cluster: Cluster | None = None,
    store: Store | None = None,
) -> Iterator[Arrays]:
    """The results of all parts, in their order.

    Args:
        function: A module-level function, which workers import.
        subject: The subject of the work.
        parts: Arguments of each part.
        common: Given to every part.
        cluster: Where to compute; None for this process.
        store: Keeps finished parts; the caller clears it after using all of them.
    """
    done = set() if store is None else store.indices()
    left = [index for index in range(len(parts)) if index not in done]
    known: dict[int, Arrays] = {}  # computed before their turn
    computed = (
        ((index, function(subject, common, *parts[index])) for index in left)
        if cluster is None
        else _elsewhere(cluster, function, subject, parts, left, common, known)
    )
    try:
        for index in range(len(parts)):
            if index in done and store is not None:
                known[index] = store.load(index) or function(subject, common, *parts[index])
            while index not in known:
                number, arrays = next(computed)
                known[number] = arrays
                if store is not None:
                    store.save(number, arrays)
            yield known.pop(index)
    except KeyboardInterrupt as stop:
        if store is None:
            raise
        kept = "finished parts are kept. Run it again to resume." if store.indices() else "nothing was kept."
        raise Interrupted(f"Stopped; {kept}") from stop


def finished(
    function: Function, subject: Subject, parts: Sequence[tuple[Any, ...]], *, common: Any = None, cluster: Cluster
) -> Iterator[tuple[int, Arrays]]:
    """Yield (index, result) of parts on a cluster as they finish, in any order; for few parts that take long."""
    return _elsewhere(cluster, function, subject, parts, list(range(len(parts))), common, {})


# -- on a cluster ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SubjectSpec:
    """What a worker needs to load the subject."""

    digest: str
    """Digest of graph, model, device and budget, which identifies the subject."""
    graph: SharedFile = field(compare=False)
    model: tuple[bytes, bytes] | None = field(compare=False)
    """Description and weights."""
    budget: int | None = field(compare=False)
    device: str = field(compare=False)
    threads: int = field(compare=False)
    versions: tuple[str, ...] = field(compare=False)


def _elsewhere(
    cluster: Cluster,
    function: Function,
    subject: Subject,
    parts: Sequence[tuple[Any, ...]],
    left: list[int],
    common: Any,
    waiting: dict[int, Arrays],
) -> Iterator[tuple[int, Arrays]]:
    """Yield (index, result) of the remaining parts as they finish; `waiting` holds those not used yet."""
    if not left:
        return
    spec, shared = cluster.put(_spec(subject, cluster)), cluster.put(common)
    tasks = ((spec, function, shared, index, parts[index]) for index in left)
    for done in cluster.completed(
        work_on, tasks, queued=QUEUED * cluster.slots, hold=lambda: len(waiting) >= AHEAD * cluster.slots
    ):
        if done.lost:
            raise SettingError(
                "cluster",
                f"part {done.arguments[3] + 1} of {len(parts)} lost its worker {RETRIES + 1} times, possibly "
                "because of insufficient memory; give Ray fewer CPUs on each machine and run again to resume",
            )
        yield done.arguments[3], done.result


def work_on(spec: SubjectSpec, function: Function, common: Any, index: int, part: tuple[Any, ...]) -> Arrays:
    """Compute a part, in a worker."""
    from anykg.threads import threads

    del index
    installed = _versions()
    if installed != spec.versions:
        raise SettingError(
            "cluster",
            f"expected {', '.join(spec.versions)}, as on this machine, found {', '.join(installed)} in a worker; "
            "install the "
            "same versions on all machines",
        )
    with threads(torch=spec.threads, kernels=spec.threads):
        return function(_subject(spec), common, *part)


def _versions() -> tuple[str, ...]:
    import torch

    return f"anykg {__version__}", f"torch {torch.__version__}", f"numpy {np.__version__}"


@lru_cache(maxsize=2)
def _subject(spec: SubjectSpec) -> Subject:
    """The subject in this worker, cached from earlier parts."""
    from anykg.io.pack import open_pack

    graph, _ = open_pack(spec.graph.here())
    model = None if spec.model is None else _loaded(spec.model).to(spec.device)
    return Subject(graph, model, spec.budget)


def _spec(subject: Subject, cluster: Cluster) -> SubjectSpec:
    graph, model = subject.graph, subject._model
    if graph.entities.attributes is not None:
        raise SettingError("cluster", "attributes of entities are not sent to workers; leave it out")
    shared = cluster.share(_pack_of(graph), f"{graph.digest}.anykg", partial(is_pack_of, digest=graph.digest))
    saved = None if model is None else _saved(model)
    device = "cpu" if model is None else str(device_of(model))
    content = blake2b(b"".join(saved or ()), digest_size=16).hexdigest()
    key = f"{graph.digest} {content} {device} {subject.budget}"
    return SubjectSpec(key, shared, saved, subject.budget, device, cluster.threads, _versions())


def _pack_of(graph: KnowledgeGraph) -> Path:
    """The packed file that the graph was opened from, or one in the user's cache."""
    from anykg.io import cache
    from anykg.io.pack import write_pack

    if graph.packed is not None and is_pack_of(graph.packed, graph.digest):
        return graph.packed
    path = cache.folder() / f"{graph.digest}.anykg"
    if not is_pack_of(path, graph.digest):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_pack(graph, path, {"path": f"{graph.name}, for a cluster"})
        cache.evict(keep=path)
    return path


def is_pack_of(path: Path, digest: str) -> bool:
    """Whether a file is a packed graph of this digest."""
    from anykg.io.pack import open_pack

    try:
        return bool(open_pack(path)[1]["digest"] == digest)
    except (DataError, OSError):
        return False


def _saved(model: LinkPredictor) -> tuple[bytes, bytes]:
    """A model as the contents of its two files."""
    from anykg.answers.fitting.parts import registered_name
    from anykg.models.folders import MODEL_FILE, WEIGHTS_FILE
    from anykg.models.store import save_description, save_weights

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_description(folder, registered_name(model), model, {})
        save_weights(folder, model, {})
        return (folder / MODEL_FILE).read_bytes(), (folder / WEIGHTS_FILE).read_bytes()


def _loaded(files: tuple[bytes, bytes]) -> LinkPredictor:
    """A model from the contents of its files; the process that sent it has already decided to trust its code."""
    from anykg.models.folders import MODEL_FILE, WEIGHTS_FILE
    from anykg.models.store import load_model

    with tempfile.TemporaryDirectory() as name:
        for file, content in zip((MODEL_FILE, WEIGHTS_FILE), files, strict=True):
            (Path(name) / file).write_bytes(content)
        return load_model(Path(name), trust=True)
