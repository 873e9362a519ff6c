"""The tools that `anykg mcp` offers to assistants: small and read-only.

Every answer has its probability, whether it is already in the graph, and the hit rate of the check for its relation.
The check starts with the server, and answers wait for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

import anykg
from anykg.errors import ConfigError, InputError
from anykg.web import asking, reasons
from anykg.web.explore import facts_page, groups_of
from anykg.web.pool import Busy, Pool, TooLong
from anykg.web.served import Collection, Served
from anykg.web.state import known_name

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

TOOL_SECONDS = 300.0
SHOWN_RELATIONS = 60
SMALL_FACTS = 20_000
"""Graphs up to this size can be completed as a whole."""
CHECKED, CHECKED_OF_MANY = 300, 100
"""Number of facts that the check hides, in small and in large graphs, because clients time out after a minute."""
INSTRUCTIONS = (
    "Look up entities with find_entity before using their names. predict takes two of head, relation and tail. "
    "Probabilities come from a check on hidden facts of this graph; `trust` is how often the first answer was right "
    "for that relation. in_graph marks facts that are known already. Predictions are no facts: say so."
)

Name = Annotated[str, Field(max_length=4000)]


class Toolbox:
    """One graph, its model, and the result of the check."""

    def __init__(self, served: Served, *, check: bool = True) -> None:
        self.served = served
        self.report: dict[str, Any] | None = None
        self._reading = Pool("reading", threads=1, waiting=16)
        self._computing = Pool("computing", threads=1, waiting=16)  # the kernels' thread pool is not reentrant
        if check:  # before any other work
            self._computing.put(lambda _: [self.check()])

    async def run(self, work: Callable[[], Any], *, computes: bool = False) -> str:
        """The result of `work` as JSON; wrong input raises an error. Work that computes waits for the check."""
        from mcp.server.mcpserver.exceptions import ToolError

        pool = self._computing if computes else self._reading
        try:
            found = await pool.run(lambda _: [work()], None, seconds=TOOL_SECONDS)
        except InputError as error:
            raise ToolError(str(error)) from error
        except TooLong as error:
            raise ToolError("This took too long and was cancelled; ask for less.") from error
        except Busy as error:
            raise ToolError("Too many calls are waiting; try again.") from error
        return json.dumps(found, ensure_ascii=False)

    # -- tools --------------------------------------------------------------------------------------------------

    def check(self) -> dict[str, Any]:
        """How far to trust the model on this graph."""
        served = self.served
        facts = CHECKED if served.graph.num_triplets <= SMALL_FACTS else CHECKED_OF_MANY
        report = anykg.check(served.graph, model=served.model, name=served.model_name, facts=facts).to_dict()
        self.report = report
        rows = [row for row in report["rows"] if row["group"] == "relation"]
        return {
            "sentence": report["summary"]["sentence"],
            "warnings": report["warnings"],
            "by_relation": [
                {"relation": row["name"], "hidden_facts": row["facts"], "first_answer_right": _round(row["hits@1"])}
                for row in rows[:SHOWN_RELATIONS]
            ],
        }

    def describe(self) -> dict[str, Any]:
        """What the graph is about."""
        detail = self.served.detail()
        shown = detail["relation_list"][:SHOWN_RELATIONS]
        return {
            "name": detail["name"],
            "facts": detail["facts"],
            "entities": detail["entities"],
            "model": detail["model"],
            "relations": [{"name": row["name"], "label": row["label"], "facts": row["facts"]} for row in shown],
            "more_relations": max(detail["relations"] - len(shown), 0),
            "example_questions": [
                {name: part and part["name"] for name, part in example.items()} for example in detail["examples"]
            ],
            "check": self.report["summary"]["sentence"] if self.report else None,
        }

    def find(self, text: str, kind: str, limit: int) -> dict[str, Any]:
        """Names that contain a text, or are spelled similarly."""
        served = self.served
        index = served.relations if kind == "relation" else served.entities
        vocabulary = served.graph.relations if kind == "relation" else served.graph.entities
        page = index.search(text, limit=limit)
        matches = [
            {"name": vocabulary[int(one)], "label": vocabulary.label(int(one)), "facts": int(index.counts[one])}
            for one in page.ids
        ]
        return {"matches": matches, "total": page.total, "only_similar": page.similar}

    def neighbours(self, entity: str, relation: str | None, limit: int) -> dict[str, Any]:
        """Known facts of an entity."""
        served = self.served
        at = served.entity(known_name(served, "entity", entity))
        only = served.relation(known_name(served, "relation", relation)) if relation else None
        groups = [group for group in groups_of(served.graph, at) if only is None or group.relation == only]
        pages = [facts_page(served.graph, group, 0, limit if only is not None else min(limit, 10)) for group in groups]
        return {
            "entity": served.graph.entities.label(at),
            "in_graph": True,
            "facts": [
                {
                    "relation": page["relation"]["name"],
                    "direction": page["direction"],
                    "entities": [one["name"] for one in page["entities"]],
                    "more": page["more"],
                }
                for page in pages
            ],
        }

    def predict(self, head: str | None, relation: str | None, tail: str | None, k: int, known: bool) -> dict[str, Any]:
        """The best answers to a question."""
        served = self.served
        kinds = ("entity", "relation", "entity")
        names = [
            known_name(served, kind, name) if name else None
            for kind, name in zip(kinds, (head, relation, tail), strict=True)
        ]
        question: asking.Question = (names[0], names[1], names[2])
        asked = asking.open_column(question)
        if asked is None:
            return self.score(str(names[0]), str(names[1]), str(names[2]))
        calibrated = asking.has_probabilities(served.graph, served.model, asked)
        rejected = served.decisions.triples("reject")
        [ranked] = asking.predict_all(
            served.graph, served.model, [question], k=k + len(rejected), known=known, calibrated=calibrated
        )
        rows = [row for row in ranked["rows"] if tuple(row[column] for column in asking.COLUMNS) not in rejected]
        label = (served.graph.relations if asked == "relation" else served.graph.entities).label
        position = served.relation if asked == "relation" else served.entity
        return {
            "answers": [
                self._judged(row) | {"answer": row[asked], "label": label(position(row[asked]))} for row in rows[:k]
            ],
            "none_of_these": ranked["summary"].get("none_of_these"),
            "known_left_out": ranked["summary"].get("known_left_out", 0),
            "trust": self._trust(question[1]),
            "note": None
            if calibrated
            else "There are no probabilities for this kind of question; scores only rank the answers.",
        }

    def score(self, head: str, relation: str, tail: str) -> dict[str, Any]:
        """How plausible one fact is."""
        served = self.served
        fact = self._fact(head, relation, tail)
        row = asking.score_all(served.graph, served.model, [fact])["rows"][0]
        ranks = {"tail_rank": row["tail_rank"], "head_rank": row["head_rank"]}
        return self._judged(row) | ranks | {"trust": self._trust(fact[1])}

    def explain(self, head: str, relation: str, tail: str) -> dict[str, Any]:
        """Why the model believes a fact."""
        served = self.served
        fact = self._fact(head, relation, tail)
        why = reasons.explain(served.graph, served.model, fact)["page"]
        paths = [
            {"path": " ; ".join(_fact_text(one) for one in path["facts"]), "effect": _round(path["effect"])}
            for path in why["paths"]
        ]
        singles = [{"fact": _fact_text(one), "effect": _round(one["effect"])} for one in why["facts"]]
        return {
            "probability": _round(why["probability"]),
            "in_graph": why["known"],
            "rank": why["rank"],
            "sentences": why["sentences"],
            "facts": singles,
            "paths": paths,
            "rules": [
                {"rule": rule["text"], "holds": rule["support"], "of": rule["body"]} for rule in why["rules"][:3]
            ],
            "runner_up": why["contrast"]
            and {"name": why["contrast"]["name"], "behind_by": _round(why["contrast"]["lead"])},
            "reliable": why["reliable"],
            "trust": self._trust(fact[1]),
        }

    def complete(self, relation: str | None, head: str | None, count: int) -> dict[str, Any]:
        """The most plausible missing facts."""
        served = self.served
        if relation is None and head is None and served.graph.num_triplets > SMALL_FACTS:
            raise InputError(
                f"This graph has {served.graph.num_triplets:,} facts; give a relation or a head, to look at a part."
            )
        done = served.decisions.triples("reject") | served.decisions.triples("accept")
        result = anykg.complete(
            served.graph,
            model=served.model,
            count=count + len(done),
            relations=[known_name(served, "relation", relation)] if relation else None,
            heads=[known_name(served, "entity", head)] if head else None,
        ).to_dict()
        rows = [row for row in result["rows"] if (row["head"], row["relation"], row["tail"]) not in done][:count]
        return {
            "facts": [
                {
                    "head": row["head"],
                    "relation": row["relation"],
                    "tail": row["tail"],
                    "probability": _round(row["probability"]),
                    "in_graph": False,
                    "trust": self._trust(row["relation"], short=True),
                }
                for row in rows
            ]
        }

    def _fact(self, head: str, relation: str, tail: str) -> tuple[str, str, str]:
        served = self.served
        return (
            known_name(served, "entity", head),
            known_name(served, "relation", relation),
            known_name(served, "entity", tail),
        )

    def _judged(self, row: dict[str, Any]) -> dict[str, Any]:
        judged = {"probability": _round(row.get("probability")), "in_graph": row["known"]}
        return judged | {"score": _round(row["score"])} if "score" in row else judged

    def _trust(self, relation: str | None, *, short: bool = False) -> Any:
        """How often the first answer was right for a relation, and the number of hidden facts."""
        if relation is None or self.report is None:
            return None
        trust = asking.trust(self.report, self.served.graph, relation)
        if trust is None:
            return None if short else "The check hid no facts of this relation."
        return _round(trust["first"]) if short else trust["sentence"]


def _fact_text(fact: dict[str, Any]) -> str:
    return " ".join(fact[column]["label"] for column in asking.COLUMNS)


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def mcp_server(box: Toolbox) -> MCPServer[Any]:
    """The tools as a server of the Model Context Protocol."""
    from mcp.server.mcpserver import MCPServer
    from mcp_types import ToolAnnotations

    server: MCPServer[Any] = MCPServer(
        "anykg", instructions=INSTRUCTIONS, version=anykg.__version__, log_level="WARNING"
    )
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    tool = server.tool

    @tool(annotations=reads, structured_output=False)
    async def describe_graph() -> str:
        """What the graph holds: counts, relations, example questions, how far to trust it."""
        return await box.run(box.describe)

    @tool(annotations=reads, structured_output=False)
    async def find_entity(
        text: Name,
        kind: Literal["entity", "relation"] = "entity",
        limit: Annotated[int, Field(ge=1, le=50)] = 10,
    ) -> str:
        """Names that contain a text, or are spelled similarly."""
        return await box.run(lambda: box.find(text, kind, limit))

    @tool(annotations=reads, structured_output=False)
    async def neighbours(
        entity: Name, relation: Name | None = None, limit: Annotated[int, Field(ge=1, le=100)] = 20
    ) -> str:
        """Known facts of an entity, by relation and direction."""
        return await box.run(lambda: box.neighbours(entity, relation, limit))

    @tool(annotations=reads, structured_output=False)
    async def predict(
        head: Name | None = None,
        relation: Name | None = None,
        tail: Name | None = None,
        k: Annotated[int, Field(ge=1, le=50)] = 5,
        known: bool = False,
    ) -> str:
        """Ranked answers to (head, relation, ?), (?, relation, tail) or (head, ?, tail). known: with known facts."""
        return await box.run(lambda: box.predict(head, relation, tail, k, known), computes=True)

    @tool(annotations=reads, structured_output=False)
    async def score(head: Name, relation: Name, tail: Name) -> str:
        """How plausible one fact is."""
        return await box.run(lambda: box.score(head, relation, tail), computes=True)

    @tool(annotations=reads, structured_output=False)
    async def explain(head: Name, relation: Name, tail: Name) -> str:
        """Why a fact is believed: facts, paths and rules behind it, and whether removing them matters."""
        return await box.run(lambda: box.explain(head, relation, tail), computes=True)

    @tool(annotations=reads, structured_output=False)
    async def check() -> str:
        """Hide known facts and predict them: how far to trust predictions, by relation. Takes up to a minute."""
        return await box.run(box.check, computes=True)

    @tool(annotations=reads, structured_output=False)
    async def complete(
        relation: Name | None = None, head: Name | None = None, count: Annotated[int, Field(ge=1, le=200)] = 20
    ) -> str:
        """The most plausible missing facts; large graphs need a relation or a head."""
        return await box.run(lambda: box.complete(relation, head, count), computes=True)

    return server


def run_mcp(graph: str, *, model: str | None, check: bool, reading: dict[str, Any], data: Path | None = None) -> None:
    """Serve a graph over standard input and output until the client leaves."""
    try:
        import mcp.server.mcpserver  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"`anykg mcp` needs {error.name}; install it with `pip install 'anykg[mcp]'`.") from error
    from platformdirs import user_data_path

    served = Collection(data or Path(user_data_path("anykg")), model=model).add(graph, **reading)
    mcp_server(Toolbox(served, check=check)).run("stdio")


__all__ = ["Toolbox", "mcp_server", "run_mcp"]
