"""Anything that fits the OpenAPI description, and much that does not, is answered without a 500 and as described."""

import os
from contextlib import suppress
from typing import Any

import pytest

schemathesis = pytest.importorskip("schemathesis", reason="generated requests need schemathesis")
pytest.importorskip("fastapi", reason="the server needs the extra [serve]")

from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from webserver import TOKEN

EXAMPLES = int(os.environ.get("ANYKG_EXAMPLES", "8"))
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture
def description(client: Any) -> Any:
    """The description of a server whose jobs start no processes."""

    def refuse(order: Any) -> Any:
        from anykg.web.jobs import Job

        return Job("generated", order)

    client.state.jobs.start = refuse
    return schemathesis.openapi.from_asgi("/api/v1/openapi.json", _with_token(client.http.app)).exclude(
        path_regex="events$"  # streams, which do not end
    )


def _with_token(app: Any) -> Any:
    async def call(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            kept = [pair for pair in scope["headers"] if pair[0] not in (b"host", b"authorization", b"origin")]
            ours = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {TOKEN}".encode())]
            scope = scope | {"headers": [*kept, *ours]}
        await app(scope, receive, send)

    return call


def test_no_request_breaks_the_server(description: Any) -> None:
    """Every operation, with data that fits its description and data that does not."""
    operations = [found.ok() for found in description.get_all_operations()]
    assert len(operations) > 20
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            try_operation(operation, mode)


def try_operation(operation: Any, mode: Any) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(operation.as_strategy(generation_mode=mode))
    def run(case: Any) -> None:
        if "graph" in (case.path_parameters or {}):
            case.path_parameters["graph"] = "people"
        response = case.call()
        assert response.status_code < 500 or response.status_code in (503, 504), (case, response.text)
        case.validate_response(response, checks=CHECKS)

    with suppress(Unsatisfiable):  # there is nothing that does not fit an operation without inputs
        run()
