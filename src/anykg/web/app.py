"""The server as an ASGI application: routes, error responses, the page, and the access checks in front of them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from anykg import __version__
from anykg.errors import InputError, UnknownName
from anykg.web import routes_graphs, routes_jobs, routes_review
from anykg.web.access import LOOPBACK, Access
from anykg.web.bodies import BodyLimit, Gate
from anykg.web.decisions import Conflict
from anykg.web.pool import Busy, Cancelled, TooLong
from anykg.web.refusals import refusal
from anykg.web.state import State
from anykg.web.uploads import TooLarge

STATIC = Path(__file__).parent / "static"
ROOT = "/api/v1"
INSIDE, OUTSIDE, STREAMS = 256, 16_384, 256
"""Upper bounds on concurrent requests, waiting requests, and event streams."""
WAITING_SECONDS = 60.0
log = logging.getLogger("anykg.web")


def create_app(state: State, *, token: str, port: int, hosts: Iterable[str] = LOOPBACK) -> Any:
    """The application with the access checks around it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        state.close()

    app = FastAPI(
        title="anykg",
        version=__version__,
        description="Explore knowledge graphs, predict missing facts, see explanations, and review proposed facts.",
        openapi_url=f"{ROOT}/openapi.json",
        docs_url=None,  # those pages load scripts from other sites
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.anykg = state
    for module in (routes_graphs, routes_jobs, routes_review):
        app.include_router(module.router, prefix=ROOT)
    _add_errors(app)
    app.mount("/static", _Static(directory=STATIC), name="static")

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})

    limited = BodyLimit(app, upload=state.uploads.limit, upload_path=f"{ROOT}/uploads")
    gate = Gate(limited, inside=INSIDE, outside=OUTSIDE, streams=STREAMS, seconds=WAITING_SECONDS)
    return Access(gate, token=token, port=port, hosts=hosts)


class _Static(StaticFiles):
    """Files of the page, revalidated by the browser."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        response = super().file_response(*arguments, **options)
        response.headers["cache-control"] = "no-cache"
        return response


def _add_errors(app: FastAPI) -> None:
    """Turn every failure into a JSON object with a message."""

    @app.exception_handler(InputError)
    async def input_error(request: Request, error: InputError) -> JSONResponse:
        if isinstance(error, UnknownName):
            details = {"kind": error.kind, "name": error.name, "suggestions": error.near}
            return _problem(404, str(error), **details)
        if isinstance(error, Conflict):
            return _problem(409, str(error))
        return _problem(413 if isinstance(error, TooLarge) else 422, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        body = getattr(request.scope.get("route"), "body_field", None)
        fields = getattr(body.field_info.annotation, "model_fields", ()) if body else ()
        return _problem(422, refusal(error.errors(), fields))

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        return _problem(error.status_code, f"{error.detail}.", headers=error.headers)

    @app.exception_handler(Busy)
    async def busy(request: Request, error: Busy) -> JSONResponse:
        return _problem(503, "Too many requests are waiting; try again in a moment.", headers={"retry-after": "1"})

    @app.exception_handler(TooLong)
    async def too_long(request: Request, error: TooLong) -> JSONResponse:
        return _problem(504, "The answer took too long and was cancelled.")

    @app.exception_handler(Cancelled)
    async def cancelled(request: Request, error: Cancelled) -> Response:
        return Response(status_code=499)  # the client has disconnected

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return _problem(500, f"Internal server error ({type(error).__name__}); see the server's terminal for details.")


def _problem(status: int, sentence: str, headers: Any = None, **details: Any) -> JSONResponse:
    return JSONResponse({"error": sentence} | details, status_code=status, headers=headers)
