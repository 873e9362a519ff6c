"""Routes of jobs: start, watch, stop, fetch results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import StreamingResponse

from anykg.errors import InputError, UnknownName
from anykg.web import schemas
from anykg.web.jobs import ENDED, Job, Kind
from anykg.web.routes_graphs import PROBLEMS, Graph, Held
from anykg.web.served import Served
from anykg.web.state import State, known_name

router = APIRouter()
LOOK_SECONDS, QUIET_SECONDS = 0.25, 15.0
JobName = Annotated[str, Path(max_length=100)]
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Server-sent events"}
}


@router.post("/graphs/{graph}/check", response_model=schemas.Job, responses=PROBLEMS, tags=["jobs"], status_code=202)
async def check(served: Graph, state: Held, order: schemas.CheckOrder | None = None) -> dict[str, Any]:
    """Hide facts and predict them, to measure how far to trust the model. Also calibrates probabilities."""
    settings = (order or schemas.CheckOrder()).model_dump(exclude_none=True)
    return start(state, served, "check", settings)


@router.post("/graphs/{graph}/complete", response_model=schemas.Job, responses=PROBLEMS, tags=["jobs"], status_code=202)
async def complete(
    served: Graph, state: Held, request: Request, order: schemas.CompleteOrder | None = None
) -> dict[str, Any]:
    """Find the most plausible facts that the graph does not have."""
    wanted = order or schemas.CompleteOrder()

    def settings() -> dict[str, Any]:
        given = wanted.model_dump(exclude_none=True)
        for name, kind in (("relations", "relation"), ("heads", "entity")):
            if name in given:
                given[name] = [known_name(served, kind, one) for one in given[name]]
        # Facts with a decision are left out later, so as many more are requested.
        decided = served.decisions.triples("reject") | served.decisions.triples("accept")
        return given | {"count": given["count"] + len(decided), "wanted": given["count"]}

    return start(state, served, "complete", await state.read(request, settings))


@router.post("/graphs/{graph}/audit", response_model=schemas.Job, responses=PROBLEMS, tags=["jobs"], status_code=202)
async def audit(served: Graph, state: Held, order: schemas.AuditOrder | None = None) -> dict[str, Any]:
    """Find known facts that the rest of the graph contradicts."""
    settings = (order or schemas.AuditOrder()).model_dump(exclude_none=True)
    return start(state, served, "audit", settings)


@router.post("/graphs/{graph}/fit", response_model=schemas.Job, responses=PROBLEMS, tags=["jobs"], status_code=202)
async def fit(served: Graph, state: Held, order: schemas.FitOrder | None = None) -> dict[str, Any]:
    """Fit a model to this graph, and use it from then on. Rejected facts are negatives."""
    wanted = order or schemas.FitOrder()
    folder = state.collection.fitted_folder(served.graph.digest)
    number = 1 + len(state.collection.fitted(served.graph.digest))
    served.decisions.refresh()
    settings = {
        "minutes": wanted.minutes,
        "out": str(folder / f"fitted-{number}"),
        "negatives": sorted(served.decisions.triples("reject")),
    }
    return start(state, served, "fit", settings)


@router.get("/jobs", response_model=schemas.JobList, responses=PROBLEMS, tags=["jobs"])
async def jobs(state: Held) -> dict[str, Any]:
    """All jobs of the graphs on this server, newest first."""
    return {"jobs": listed(state)}


@router.get("/jobs/events", responses=PROBLEMS | STREAM, response_class=StreamingResponse, tags=["jobs"])
async def all_events(state: Held, request: Request) -> StreamingResponse:
    """The list of jobs as server-sent events, whenever something changes, until none is running."""

    def look() -> tuple[dict[str, Any], bool]:
        found = listed(state)
        return {"jobs": found}, all(job["state"] in ENDED for job in found)

    return _stream(request, "jobs", look)


@router.get("/jobs/{job}", response_model=schemas.Job, responses=PROBLEMS, tags=["jobs"])
async def job(state: Held, job: JobName) -> dict[str, Any]:
    """The state of a job."""
    return job_of(state, job).public()


@router.get("/jobs/{job}/events", responses=PROBLEMS | STREAM, response_class=StreamingResponse, tags=["jobs"])
async def events(state: Held, request: Request, job: JobName) -> StreamingResponse:
    """A job as server-sent events, until it ends."""
    job_of(state, job)

    def look() -> tuple[dict[str, Any], bool]:
        found = job_of(state, job)
        return found.public(), found.state in ENDED

    return _stream(request, "job", look)


@router.get("/jobs/{job}/result", response_model=schemas.Result, responses=PROBLEMS, tags=["jobs"])
async def result(state: Held, request: Request, job: JobName) -> dict[str, Any]:
    """The result of a job."""
    found = job_of(state, job)
    if found.state != "done":
        raise InputError(f"The job is {found.state}; its result is available once it is done.")
    content = await state.read(request, lambda: state.job_result(job))
    if content is None:
        raise UnknownName("result of the job", job)
    kept: dict[str, Any] = content
    return kept


@router.post("/jobs/{job}/stop", response_model=schemas.Job, responses=PROBLEMS, tags=["jobs"])
async def stop(state: Held, job: JobName) -> dict[str, Any]:
    """Stop a job; a finished job is left unchanged."""
    job_of(state, job)
    stopped = state.jobs.stop(job)
    return (stopped or job_of(state, job)).public()


def start(state: State, served: Served, kind: Kind, settings: dict[str, Any]) -> dict[str, Any]:
    """Order a job about a graph with its current model."""
    return state.jobs.start(state.order(served, kind, settings)).public()


def listed(state: State) -> list[dict[str, Any]]:
    """The jobs about served graphs, under their current ids, newest first."""
    ids = {served.graph.digest: served.id for served in state.collection}
    return [
        job.public() | {"graph": ids[job.order.digest]} for job in state.jobs.list() if job.order.digest in ids
    ]  # fmt: skip


def job_of(state: State, name: str) -> Job:
    """The job of that id."""
    job = state.jobs.get(name)
    if job is None:
        raise UnknownName("job", name)
    return job


def _stream(request: Request, event: str, look: Callable[[], tuple[dict[str, Any], bool]]) -> StreamingResponse:
    async def lines() -> AsyncIterator[str]:
        last, quiet = "", 0.0
        while not await request.is_disconnected():
            content, ended = look()
            text = json.dumps(content)
            if text != last:
                last, quiet = text, 0.0
                yield f"event: {event}\ndata: {text}\n\n"
            elif quiet >= QUIET_SECONDS:
                quiet = 0.0
                yield ": still here\n\n"
            if ended:
                return
            await asyncio.sleep(LOOK_SECONDS)
            quiet += LOOK_SECONDS

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"cache-control": "no-store"})
