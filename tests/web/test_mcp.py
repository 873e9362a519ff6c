"""The assistant's tools, called by the official client over standard input and output."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the tools need the extra [mcp]")
pytest.importorskip("filelock", reason="decisions need the extra [serve]")

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

CALLS: dict[str, dict[str, Any]] = {
    "describe_graph": {},
    "find_entity": {"text": "berln"},
    "neighbours": {"entity": "Firm 1"},
    "check": {},
    "predict": {"head": "Person 6", "relation": "lives in"},
    "score": {"head": "Person 6", "relation": "works for", "tail": "Firm 1"},
    "explain": {"head": "Person 6", "relation": "lives in", "tail": "Zürich"},
    "complete": {"relation": "lives in", "count": 3},
}


def test_every_tool_answers_with_what_is_needed_to_judge_it(graph_file: Path, private_home: Path) -> None:
    environment = dict(os.environ) | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "anykg", "mcp", str(graph_file)], env=environment
    )
    found: dict[str, Any] = {}

    async def talk() -> None:
        async with Client(stdio_client(parameters)) as client:
            listed = (await client.list_tools()).tools
            found["tools"] = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed]
            for name, arguments in CALLS.items():
                answer = await client.call_tool(name, arguments)
                assert not answer.is_error, answer
                found[name] = json.loads(answer.content[0].text)
            wrong = await client.call_tool("neighbours", {"entity": "Firm 11"})
            found["wrong"] = (wrong.is_error, wrong.content[0].text)

    anyio.run(talk)
    assert {tool["name"] for tool in found["tools"]} == set(CALLS)
    assert all(tool["annotations"]["readOnlyHint"] for tool in found["tools"])
    words = len(json.dumps(found["tools"], indent=1).split())
    assert words * 1.3 <= 2500

    assert found["find_entity"]["matches"][0]["name"] == "Berlin"
    assert found["predict"]["answers"][0]["probability"] is not None
    assert found["predict"]["answers"][0]["in_graph"] is False
    assert "hidden facts of 'lives in'" in found["predict"]["trust"]
    assert (found["score"]["in_graph"], found["score"]["probability"] is not None) == (True, True)
    assert "trust" in found["explain"]
    assert len(found["complete"]["facts"]) == 3
    assert all(fact["probability"] is not None and fact["trust"] is not None for fact in found["complete"]["facts"])
    assert found["wrong"][0]
    assert "There is no entity named 'Firm 11'" in found["wrong"][1]
