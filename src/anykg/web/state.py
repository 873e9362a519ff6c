"""The state of a running server, and how requests reach it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anykg.errors import UnknownName
from anykg.web import asking
from anykg.web.jobs import Job, Jobs, Kind, Order
from anykg.web.pool import Batch, Busy, Pool
from anykg.web.served import Collection, Served
from anykg.web.served import examples as served_examples
from anykg.web.snapshots import save_snapshot
from anykg.web.uploads import Uploads

if TYPE_CHECKING:
    from starlette.requests import Request

UPLOAD_LIMIT = 64 << 20
READ_SECONDS, PREDICT_SECONDS, EXPLAIN_SECONDS, UPLOAD_SECONDS = 10.0, 60.0, 180.0, 120.0
SUGGESTIONS = 3


class State:
    """Graphs, jobs, uploads, and the threads that answer."""

    def __init__(self, collection: Collection, *, cache: Path, upload_limit: int = UPLOAD_LIMIT) -> None:
        """`cache` is a folder for jobs and uploads, which may be lost."""
        self.collection = collection
        self.uploads = Uploads(collection.data / "uploads", upload_limit)
        self.reading = Pool("reading", threads=2, waiting=1000)
        # One thread: the kernels' thread pool is not reentrant, and waiting requests are answered together.
        self.computing = Pool("computing", threads=1, waiting=128, together=32)
        self.snapshots = cache / "graphs"
        self.jobs = Jobs(cache / "jobs", self._job_done)
        self.job_result = lru_cache(maxsize=8)(self.jobs.result)

    def close(self) -> None:
        """Stop jobs and threads."""
        self.jobs.close()
        self.reading.close()
        self.computing.close()

    def _job_done(self, job: Job) -> None:
        """Switch to a model once it is fitted."""
        if job.order.kind != "fit":
            return
        folder = Path(job.order.settings["out"])
        for served in self.collection.of_digest(job.order.digest):
            served.models[folder.name] = str(folder)
            self.collection.use(served, folder.name)
            with suppress(Busy):  # quick: it reports the hidden facts that the fit asked for
                self.jobs.start(self.order(served, "check", {"task": "node", "seed": 0}))

    def order(self, served: Served, kind: Kind, settings: dict[str, Any]) -> Order:
        """The order of a job about a graph with its current model."""
        snapshot = save_snapshot(served.graph, self.snapshots)
        return Order(kind, served.id, served.name, str(snapshot), served.graph.digest, served.model_source, settings)

    def warm_up(self, checked_facts: int) -> None:
        """Answer one question about every graph to load the kernels, then check graphs without probabilities."""
        for served in self.collection:
            for example in served.graph.derive(served_examples)[:1]:
                question = tuple(part and part["name"] for part in example.values())
                with suppress(Exception):  # a request will report the error
                    self.computing.put(partial(_ask_one, served), question).result()
            small = served.graph.num_triplets <= checked_facts
            if small and not asking.has_probabilities(served.graph, served.model, "tail"):
                with suppress(Busy):
                    self.jobs.start(self.order(served, "check", {"task": "node", "seed": 0}))

    def newest_check(self, served: Served) -> Job | None:
        """The newest check of a graph with its current model."""
        for job in self.jobs.list(served.graph.digest):
            order = job.order
            done = order.kind == "check" and job.state == "done" and order.model == served.model_source
            if done and order.settings.get("task", "node") == "node":
                return job
        return None

    async def read(self, request: Request, work: Callable[[], Any], seconds: float = READ_SECONDS) -> Any:
        """Run cheap work on a reading thread."""
        return await self.reading.run(_once(work), None, seconds=seconds, gone=request.is_disconnected)

    async def compute(self, request: Request, work: Callable[[Batch], Any], seconds: float) -> Any:
        """Run model work on the computing thread."""
        return await self.computing.run(
            lambda batch: [work(batch)], None, seconds=seconds, gone=request.is_disconnected
        )

    async def predict(
        self, request: Request, served: Served, question: asking.Question, *, k: int, known: bool
    ) -> dict[str, Any]:
        """The answers to a question; questions that wait at the same time are answered in one batch."""
        asked = asking.open_column(question)
        graph, model = served.graph, served.model

        def work(batch: Batch) -> list[dict[str, Any]]:
            calibrated = asking.has_probabilities(graph, model, asked)
            return asking.predict_all(
                graph, model, batch.items, k=k, known=known, calibrated=calibrated, progress=batch.check
            )

        key = ("predict", served.id, id(model), asked, k, known)
        found: dict[str, Any] = await self.computing.run(
            work, question, key=key, seconds=PREDICT_SECONDS, gone=request.is_disconnected
        )
        return found


def _ask_one(served: Served, batch: Batch) -> list[Any]:
    return asking.predict_all(served.graph, served.model, batch.items, k=1, known=True, calibrated=False)


def _once(work: Callable[[], Any]) -> Callable[[Batch], list[Any]]:
    return lambda batch: [work()]


def known_name(served: Served, kind: str, name: str) -> str:
    """The name of an entity or relation given by name or label; unknown ones raise with names that look alike."""
    vocabulary = served.graph.relations if kind == "relation" else served.graph.entities
    position = vocabulary.find(name)
    if position is not None:
        return vocabulary[position]
    index = served.relations if kind == "relation" else served.entities
    near = index.search(name, limit=SUGGESTIONS).ids
    raise UnknownName(vocabulary.kind, name, [vocabulary.label(int(one)) for one in near])
