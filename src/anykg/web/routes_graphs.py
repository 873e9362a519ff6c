"""Routes of graphs: list, upload, search, entities, neighbourhoods, and questions answered immediately."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, File, Form, Path, Query, Request, UploadFile

from anykg import __version__
from anykg.web import asking, reasons, schemas
from anykg.web.decisions import Triple
from anykg.web.explore import entity_view, facts_page, groups_of, named, neighbourhood
from anykg.web.served import Served
from anykg.web.state import EXPLAIN_SECONDS, PREDICT_SECONDS, UPLOAD_SECONDS, State, known_name

router = APIRouter()
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Problem}
    for status in (400, 401, 403, 404, 405, 409, 413, 422, 503, 504)
}  # fmt: skip
Name = Annotated[str, Query(min_length=1, max_length=4000)]
Offset = Annotated[int, Query(ge=0, le=10**9)]


async def state_of(request: Request) -> State:
    """The state of the server."""
    state: State = request.app.state.anykg
    return state


async def served_of(request: Request, graph: Annotated[str, Path(max_length=100)]) -> Served:
    """The graph in the path."""
    state: State = request.app.state.anykg
    return state.collection.get(graph)


Held = Annotated[State, Depends(state_of)]
Graph = Annotated[Served, Depends(served_of)]


@router.get("/graphs", response_model=schemas.Graphs, responses=PROBLEMS, tags=["graphs"])
async def graphs(state: Held) -> dict[str, Any]:
    """All graphs on this server."""
    return {"version": __version__, "graphs": [served.summary() for served in state.collection]}


@router.get("/graphs/{graph}", response_model=schemas.GraphDetail, responses=PROBLEMS, tags=["graphs"])
async def graph(served: Graph, state: Held, request: Request) -> dict[str, Any]:
    """A graph with its relations, models and available operations."""

    def work() -> dict[str, Any]:
        calibrated = asking.has_probabilities(served.graph, served.model, "tail")
        check = state.newest_check(served)
        return served.detail() | {"calibrated": calibrated, "check": check.id if check else None}

    found: dict[str, Any] = await state.read(request, work)
    return found


@router.put("/graphs/{graph}/model", response_model=schemas.GraphSummary, responses=PROBLEMS, tags=["graphs"])
async def model(served: Graph, state: Held, request: Request, choice: schemas.ModelChoice) -> dict[str, Any]:
    """Switch to another model."""

    def work() -> dict[str, Any]:
        state.collection.use(served, choice.model)
        return served.summary()

    found: dict[str, Any] = await state.read(request, work)
    return found


@router.post("/uploads", response_model=schemas.Upload, responses=PROBLEMS, tags=["graphs"], status_code=201)
async def upload(
    state: Held,
    request: Request,
    file: Annotated[UploadFile, File(description="A graph file in any format that anykg reads.")],
    columns: Annotated[str | None, Form(max_length=20)] = None,
    separator: Annotated[str | None, Form(max_length=20)] = None,
    header: Annotated[bool | None, Form()] = None,
    skip_malformed: Annotated[bool, Form()] = False,
) -> dict[str, Any]:
    """Upload a graph file; it is read and described, and only used once it is opened."""
    given = {"columns": columns or None, "separator": separator or None, "header": header}
    reading = {name: value for name, value in given.items() if value is not None}
    if skip_malformed:
        reading["skip_malformed"] = True
    found = await state.read(
        request, lambda: state.uploads.take(file.file, file.filename or "graph", reading), UPLOAD_SECONDS
    )
    described: dict[str, Any] = found.public()
    return described


@router.post("/uploads/{upload}/open", response_model=schemas.GraphSummary, responses=PROBLEMS, tags=["graphs"])
async def open_upload(
    state: Held, request: Request, upload: Annotated[str, Path(max_length=100)]
) -> dict[str, Any]:  # fmt: skip
    """Serve an uploaded file."""

    def work() -> dict[str, Any]:
        kept = state.uploads.pop(upload)
        same = [served for served in state.collection if served.source == str(kept.path.resolve())]
        if same and same[0].graph == kept.graph:
            return same[0].summary()
        served = state.collection.add(str(kept.path), name=kept.name, graph=kept.graph)
        return served.summary()

    found: dict[str, Any] = await state.read(request, work, UPLOAD_SECONDS)
    return found


@router.get("/graphs/{graph}/search", response_model=schemas.Matches, responses=PROBLEMS, tags=["look"])
async def search(
    served: Graph,
    state: Held,
    request: Request,
    q: Annotated[str, Query(max_length=4000)] = "",
    kind: Literal["entity", "relation"] = "entity",
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
) -> dict[str, Any]:
    """Names and labels that contain a text, best first; if there are none, names of similar spelling."""

    def work() -> dict[str, Any]:
        index = served.entities if kind == "entity" else served.relations
        vocabulary = served.graph.entities if kind == "entity" else served.graph.relations
        page = index.search(q, offset=offset, limit=limit)
        matches = [named(vocabulary, int(one)) | {"facts": int(index.counts[one])} for one in page.ids]
        return {"matches": matches, "total": page.total, "similar": page.similar}

    result: dict[str, Any] = await state.read(request, work)
    return result


@router.get("/graphs/{graph}/entity", response_model=schemas.Entity, responses=PROBLEMS, tags=["look"])
async def entity(
    served: Graph, state: Held, request: Request, name: Name, cap: Annotated[int, Query(ge=0, le=200)] = 10
) -> dict[str, Any]:
    """An entity and its facts by relation; `more` says how many each list leaves out."""
    found: dict[str, Any] = await state.read(
        request, lambda: entity_view(served.graph, served.entity(known_name(served, "entity", name)), cap)
    )
    return found


@router.get("/graphs/{graph}/facts", response_model=schemas.Group, responses=PROBLEMS, tags=["look"])
async def facts(
    served: Graph,
    state: Held,
    request: Request,
    entity: Name,
    relation: Name,
    direction: Literal["out", "in"] = "out",
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> dict[str, Any]:
    """The facts of an entity with one relation, paginated."""

    def work() -> dict[str, Any]:
        at = served.entity(known_name(served, "entity", entity))
        kind = served.relation(known_name(served, "relation", relation))
        for group in groups_of(served.graph, at):
            if (group.relation, group.direction) == (kind, direction):
                return facts_page(served.graph, group, offset, limit)
        empty = {"entities": [], "total": 0, "more": 0, "direction": direction}
        return empty | {"relation": named(served.graph.relations, kind)}

    found: dict[str, Any] = await state.read(request, work)
    return found


@router.get("/graphs/{graph}/neighbourhood", response_model=schemas.Neighbourhood, responses=PROBLEMS, tags=["look"])
async def around(
    served: Graph,
    state: Held,
    request: Request,
    entity: Name,
    limit: Annotated[int, Query(ge=1, le=500)] = 60,
    per_relation: Annotated[int, Query(ge=1, le=100)] = 8,
) -> dict[str, Any]:
    """The facts around an entity as nodes and edges, truncated."""

    def work() -> dict[str, Any]:
        at = served.entity(known_name(served, "entity", entity))
        return neighbourhood(served.graph, at, limit=limit, per_relation=per_relation)

    found: dict[str, Any] = await state.read(request, work)
    return found


@router.post("/graphs/{graph}/predict", response_model=schemas.Answers, responses=PROBLEMS, tags=["ask"])
async def predict(served: Graph, state: Held, request: Request, ask: schemas.Ask) -> dict[str, Any]:
    """The best answers to a question; with all three given, the plausibility of the fact."""
    given = (ask.head, ask.relation, ask.tail)
    asked = asking.open_column(given)

    def resolve() -> list[str | None]:
        kinds = ("entity", "relation", "entity")
        return [
            None if name is None else known_name(served, kind, name) for kind, name in zip(kinds, given, strict=True)
        ]

    names = await state.read(request, resolve)
    question: asking.Question = tuple(names)
    left_out = 0
    if asked is None:
        found = await _score(served, state, request, [question])  # type: ignore[list-item]
    else:
        rejected = _rejected(served, question)
        found = await state.predict(request, served, question, k=ask.k + len(rejected), known=ask.known)
        found, left_out = _without(found, rejected, ask.k)
    trust = _trust(state, served, question[1])
    return await _with_page(served, state, request, found, question, asked=asked, rejected=left_out, trust=trust)


@router.post("/graphs/{graph}/score", response_model=schemas.Answers, responses=PROBLEMS, tags=["ask"])
async def score(served: Graph, state: Held, request: Request, given: schemas.Facts) -> dict[str, Any]:
    """The plausibility of given facts; a known fact is scored as if it were not in the graph."""

    def resolve() -> list[Triple]:
        kinds = ("entity", "relation", "entity")
        return [
            tuple(known_name(served, kind, name) for kind, name in zip(kinds, fact, strict=True))  # type: ignore[misc]
            for fact in given.facts
        ]

    names = await state.read(request, resolve)
    found = await _score(served, state, request, names)
    return await _with_page(served, state, request, found)


@router.post("/graphs/{graph}/explain", response_model=schemas.Explained, responses=PROBLEMS, tags=["ask"])
async def explain(served: Graph, state: Held, request: Request, fact: schemas.Ask3) -> dict[str, Any]:
    """Why the model predicts a fact: single facts, paths, rules, the runner-up, and the effect of removing them."""

    def resolve() -> Triple:
        return (
            known_name(served, "entity", fact.head),
            known_name(served, "relation", fact.relation),
            known_name(served, "entity", fact.tail),
        )

    names = await state.read(request, resolve)
    found: dict[str, Any] = await state.compute(
        request, lambda batch: reasons.explain(served.graph, served.model, names, batch.check), EXPLAIN_SECONDS
    )
    return found


@router.get("/graphs/{graph}/schema", response_model=schemas.Result, responses=PROBLEMS, tags=["ask"])
async def schema(served: Graph, state: Held, request: Request) -> dict[str, Any]:
    """The schema of the graph: functional, symmetric and inverse relations, and the kinds of entities they link."""
    found: dict[str, Any] = await state.compute(request, lambda _: served.graph.derive(asking.schema), PREDICT_SECONDS)
    return found


async def _score(served: Served, state: State, request: Request, facts: list[Triple]) -> dict[str, Any]:
    found: dict[str, Any] = await state.compute(
        request,
        lambda batch: asking.score_all(served.graph, served.model, facts, progress=batch.check),
        PREDICT_SECONDS,
    )
    return found


def _triple(row: dict[str, Any]) -> Triple:
    return row["head"], row["relation"], row["tail"]


def _rejected(served: Served, question: asking.Question) -> set[Triple]:
    """Rejected facts that would answer a question."""
    served.decisions.refresh()
    return {
        triple
        for triple in served.decisions.triples("reject")
        if all(asked is None or asked == part for asked, part in zip(question, triple, strict=True))
    }


def _without(found: dict[str, Any], rejected: set[Triple], k: int) -> tuple[dict[str, Any], int]:
    """The first k answers that were not rejected, and the number of rejected ones."""
    kept = [row for row in found["rows"] if _triple(row) not in rejected]
    rows = kept[:k]
    return found | {"rows": rows, "summary": found["summary"] | {"count": len(rows)}}, len(found["rows"]) - len(kept)


async def _with_page(
    served: Served,
    state: State,
    request: Request,
    found: dict[str, Any],
    question: asking.Question = (None, None, None),
    *,
    asked: asking.Asked | None = None,
    rejected: int = 0,
    trust: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A result, and the additional data for the page."""
    rows = found["rows"]

    def page() -> dict[str, Any]:
        decisions = [served.decisions.of(_triple(row)) for row in rows]
        return {
            "asked": asked,
            "calibrated": "probability" in rows[0] if rows else "none_of_these" in found["summary"],
            "labels": asking.labels_of(served.graph, rows, question),
            "decisions": [None if one is None else one.verdict for one in decisions],
            "rejected": rejected,
            "trust": trust,
        }

    return found | {"page": await state.read(request, page)}


def _trust(state: State, served: Served, relation: str | None) -> dict[str, Any] | None:
    """The result of the newest check of this graph and model for a relation."""
    if relation is None:
        return None
    job = state.newest_check(served)
    return None if job is None else asking.trust(state.job_result(job.id), served.graph, relation)
