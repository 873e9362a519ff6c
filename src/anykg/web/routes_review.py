"""Routes of the review: candidates found by jobs, decisions about them, and the export of accepted facts."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import Response

from anykg.errors import UnknownName
from anykg.web import schemas
from anykg.web.asking import with_names
from anykg.web.decisions import Decision, Triple
from anykg.web.exports import export
from anykg.web.jobs import Job
from anykg.web.routes_graphs import PROBLEMS, Graph, Held, Offset
from anykg.web.routes_jobs import job_of
from anykg.web.served import Served
from anykg.web.state import State, known_name

router = APIRouter()
Format = Literal["tsv", "nquads", "quickstatements", "kgx", "jsonl"]
MEDIA_TYPES = ("text/tab-separated-values", "application/n-quads", "text/plain", "application/jsonl")
FILE: dict[int | str, dict[str, Any]] = {
    200: {"content": {name: {"schema": {"type": "string"}} for name in MEDIA_TYPES}, "description": "A file"}
}


@router.get("/graphs/{graph}/candidates", response_model=schemas.Candidates, responses=PROBLEMS, tags=["review"])
async def candidates(
    served: Graph,
    state: Held,
    request: Request,
    job: Annotated[str | None, Query(max_length=100)] = None,
    source: Literal["complete", "audit"] = "complete",
    relation: Annotated[str | None, Query(max_length=4000)] = None,
    min_probability: Annotated[float, Query(ge=0, le=1)] = 0.0,
    max_probability: Annotated[float, Query(ge=0, le=1)] = 1.0,
    state_: Annotated[Literal["open", "decided", "all"], Query(alias="state")] = "open",
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> dict[str, Any]:
    """Facts to review, best first, without those reviewed before the job was started."""

    def work() -> dict[str, Any]:
        found = job_of(state, job) if job else state.jobs.latest(source, served.graph.digest)
        if found is None:
            raise HTTPException(404, f"There is nothing to review: no {source} job of this graph has finished yet")
        served.decisions.refresh()
        rows, current = _rows(state, served, found), served.decisions.current()
        measure = "plausibility" if source_of(found) == "audit" else "probability"
        relations = Counter(row["relation"] for row in rows)
        wanted = known_name(served, "relation", relation) if relation else None
        kept = [
            row
            for row in rows
            if (wanted is None or row["relation"] == wanted)
            and (row.get(measure) is None or min_probability <= row[measure] <= max_probability)
            and (state_ == "all" or (_triple(row) in current) == (state_ == "decided"))
        ]
        page = kept[offset : offset + limit]
        return {
            "job": found.id,
            "calibrated": any(row.get(measure) is not None for row in rows),
            "total": len(kept),
            "rows": [_candidate(served, row, current.get(_triple(row))) for row in page],
            "relations": [
                {"name": name, "label": served.graph.relations.label(served.relation(name)), "count": count}
                for name, count in relations.most_common()
            ],
            "progress": _progress(rows, current),
            "exportable": len(_exported(served, source_of(found))),
        }

    result: dict[str, Any] = await state.read(request, work)
    return result


@router.get("/graphs/{graph}/decisions", response_model=schemas.DecisionList, responses=PROBLEMS, tags=["review"])
async def decisions(
    served: Graph,
    state: Held,
    request: Request,
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> dict[str, Any]:
    """All decisions, newest first."""

    def work() -> dict[str, Any]:
        served.decisions.refresh()
        history = served.decisions.history()[::-1]
        page = [asdict(one) for one in history[offset : offset + limit]]
        kept = served.decisions
        return {"file": str(kept.path), "total": len(history), "damaged": kept.damaged, "decisions": page}

    found: dict[str, Any] = await state.read(request, work)
    return found


@router.post(
    "/graphs/{graph}/decisions", response_model=schemas.Decided, responses=PROBLEMS, tags=["review"], status_code=201
)
async def decide(served: Graph, state: Held, request: Request, given: schemas.NewDecision) -> dict[str, Any]:
    """Save a decision; it is on disk when this returns. 409 if somebody else decided in the meantime."""

    def work() -> dict[str, Any]:
        decision = Decision(
            id=given.id,
            head=known_name(served, "entity", given.head),
            relation=known_name(served, "relation", given.relation),
            tail=known_name(served, "entity", given.tail),
            verdict=given.verdict,
            source=given.source,
            probability=given.probability,
            model=served.model_digest,
            graph=served.graph.digest,
            reviewer=given.reviewer,
            note=given.note,
        )
        kept = served.decisions.add(decision, replaces=given.replaces)
        current = served.decisions.of(decision.triple)
        progress = {}
        for source in ("complete", "audit"):
            job = state.jobs.latest(source, served.graph.digest)
            if job is not None:
                progress[source] = _progress(_rows(state, served, job), served.decisions.current())
        exportable = {source: len(_exported(served, source)) for source in ("complete", "audit")}
        return {
            "decision": asdict(kept),
            "current": asdict(current) if current else None,
            "progress": progress,
            "exportable": exportable,
        }

    found: dict[str, Any] = await state.read(request, work)
    return found


@router.get("/graphs/{graph}/export", responses=PROBLEMS | FILE, response_class=Response, tags=["review"])
async def exported(
    served: Graph,
    state: Held,
    request: Request,
    format: Format = "tsv",
    verdict: Literal["accept", "reject"] = "accept",
) -> Response:
    """The accepted facts that the graph does not have, as a file; `jsonl` has every decision ever made.

    With `verdict=reject`, the known facts that an audit proposed and a reviewer found wrong.
    """

    def work() -> Any:
        served.decisions.refresh()
        if format == "jsonl":
            return export(served.decisions.history(), format)
        return export(_exported(served, "audit" if verdict == "reject" else "complete"), format)

    found = await state.read(request, work)
    name = f"{served.id}-{'wrong' if verdict == 'reject' else 'accepted'}{found.suffix}"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(found.content, media_type=found.media_type, headers=headers)


def source_of(job: Job) -> Literal["complete", "audit"]:
    """The kind of candidates that a job found."""
    return "audit" if job.order.kind == "audit" else "complete"


def _exported(served: Served, source: Literal["complete", "audit"]) -> list[Decision]:
    """New facts that were accepted; for an audit, known facts that were found wrong."""
    of_audit = source == "audit"
    return [
        one
        for one in served.decisions.current().values()
        if one.verdict == ("reject" if of_audit else "accept") and (one.source == "audit") == of_audit
    ]


def _rows(state: State, served: Served, job: Job) -> list[dict[str, Any]]:
    """The result of a job, without facts that were accepted or rejected before it was started."""
    content = state.job_result(job.id)
    if content is None:
        raise UnknownName("result of the job", job.id)
    started = datetime.fromtimestamp(job.created, UTC).isoformat(timespec="milliseconds")
    earlier = {
        triple
        for triple, decision in served.decisions.current().items()
        if decision.verdict in ("accept", "reject") and decision.time < started
    }
    rows = [row for row in content["rows"] if _triple(row) not in earlier] if earlier else content["rows"]
    return rows[: job.order.settings.get("wanted")]


def _candidate(served: Served, row: dict[str, Any], decision: Decision | None) -> dict[str, Any]:
    plain = with_names(served.graph, row)
    columns = ("head", "relation", "tail", "score", "probability", "rank", "reason")
    if "plausibility" in plain:  # of an audit
        plain["probability"] = plain["plausibility"]
    return {name: plain.get(name) for name in columns} | {"decision": asdict(decision) if decision else None}


def _triple(row: dict[str, Any]) -> Triple:
    return row["head"], row["relation"], row["tail"]


def _progress(rows: list[dict[str, Any]], current: dict[Triple, Decision]) -> dict[str, int]:
    verdicts = Counter(current[_triple(row)].verdict for row in rows if _triple(row) in current)
    return {
        "total": len(rows),
        "decided": sum(verdicts.values()),
        "accepted": verdicts["accept"],
        "rejected": verdicts["reject"],
        "skipped": verdicts["skip"],
    }
