"""The command `anykg warm-up`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from anykg.graph.graph import KnowledgeGraph

EXAMPLES = """
Compile ahead of time the kernels that predict, check, explain, complete, rules, audit, fit and train would otherwise
compile on first use.

Compiled code is stored next to the installed package or, if that is not writable, in the user's cache (NUMBA_CACHE_DIR
sets another folder). Without this command, each command compiles the kernels it needs, with a message.

Example: anykg warm-up
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("warm-up", help=EXAMPLES)(warm_up)


def warm_up() -> None:
    import logging
    import tempfile

    from anykg.cli.output import is_quiet, note, say
    from anykg.compiling import announce

    compiled = announce(lambda text: None)
    logger = logging.getLogger("anykg")
    quiet, level = is_quiet(), logger.level
    steps = _steps()
    for number, (name, step) in enumerate(steps.items(), 1):
        if not quiet:
            note(f"{number} of {len(steps)}: {name}")
        logger.setLevel(logging.ERROR)  # warnings about the random graph are irrelevant
        try:
            with tempfile.TemporaryDirectory() as folder:
                step(folder)
        finally:
            logger.setLevel(level)
    if compiled.kernels:
        say(f"Kernels compiled: {compiled.kernels:,}, in {compiled.seconds:.0f} s; later commands load them.")
    else:
        say("All kernels are already compiled.")


def _steps() -> dict[str, Callable[[str], object]]:
    """Each command on a small random graph; output is written to a folder."""
    import anykg
    from anykg.answers.rules import apply_rules
    from anykg.models.nbf import fast, near

    graph = _random_graph()
    vocabularies = (graph.entities, graph.relations, graph.entities)
    head, relation, tail = (names[int(at)] for names, at in zip(vocabularies, graph.triplets[0], strict=True))
    fast.SMALL, fast.MANY_ROWS, fast.FEW_START = -1, 0, 1.0  # compile all kernels even though the graph is small
    near.FEW = 2.0

    def predict(folder: str) -> None:
        anykg.predict(graph, head=head, relation=relation)
        anykg.predict(graph, head=head, tail=tail)
        anykg.predict(graph, head=head, relation=relation, budget=100)

    def train(folder: str) -> None:
        few: dict[str, Any] = {"epochs": 1, "steps_per_epoch": 4}
        anykg.train("ultra", graph, out=f"{folder}/ultra", **few)
        anykg.train("trix", graph, out=f"{folder}/trix", loss="softmax", relation_every=2, **few)  # as fit adapts

    return {
        "predict": predict,
        "check": lambda folder: anykg.check(graph, facts=20),
        "explain": lambda folder: anykg.explain(graph, head, relation, tail),
        "complete": lambda folder: anykg.complete(graph, count=5),
        "rules": lambda folder: apply_rules(anykg.rules(graph, nulls=1), graph),
        "audit": lambda folder: anykg.audit(graph, folds=2, epochs=1),
        "train": train,
        "fit": lambda folder: anykg.fit(graph, minutes=0.05, out=f"{folder}/fitted"),
    }


def _random_graph() -> KnowledgeGraph:
    import numpy as np

    from anykg.graph.graph import KnowledgeGraph
    from anykg.graph.vocabulary import Vocabulary
    from anykg.seeds import generator

    rng, entities, relations = generator(0, "warm-up"), 60, 4
    ends = rng.integers(entities, size=(2, 600))
    triplets = np.stack([ends[0], (ends[0] + ends[1]) % relations, ends[1]], axis=1)
    names = (Vocabulary("entity", [f"e{i}" for i in range(entities)]), Vocabulary("relation", ["r", "s", "t", "u"]))
    return KnowledgeGraph(triplets, *names)
