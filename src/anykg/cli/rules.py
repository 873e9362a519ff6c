"""`anykg rules`: mine clauses from a graph, show them, apply them to another."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from anykg.cli.options import DataDir, GraphName, Rows, RowsOut, Text, listed
from anykg.cli.output import TextFormat
from anykg.cli.reading import Reading, takes_reading

app = typer.Typer(
    help="Rules over any entities and relations: mined on one graph, they apply to every other.", no_args_is_help=True
)

MINE = """
Mine the clauses that hold in a graph: every shape up to a size, with its support, confidence and significance, and its
best instances in this graph's relations. After an interruption, the same command continues where it stopped.

Examples:

  anykg rules mine atlas

  anykg rules mine facts.tsv --length 2 --out rules.json

  anykg rules mine EN-FR --nulls 0 --format json

  anykg rules mine large.anykg --seconds 120
"""
SHOW = """
Show mined rules, or the meaning of a clause.

Examples:

  anykg rules show rules.json

  anykg rules show rules.json --family path --top 50 --by z

  anykg rules show "(E1, C2, E3) & (E3, C1, E2) => (E1, C1, E2)"
"""
APPLY = """
Predict with clauses alone: list the unknown facts that they imply, best first, with the reasons. In a clause, names
are variables, and names in quotes are relations of the graph; its confidence is measured on the graph.

Examples:

  anykg rules apply rules.json facts.tsv

  anykg rules apply "(E1, C2, E3) & (E3, C1, E2) => (E1, C1, E2)" facts.tsv

  anykg rules apply "(x, 'borders', y) & (y, 'on continent', z) => (x, 'on continent', z)" atlas

  anykg rules apply rules.json EN-FR --min-confidence 0.2 --out new.tsv
"""


class Order(StrEnum):
    """What rules are sorted by."""

    PCA = "pca"
    CONFIDENCE = "confidence"
    SUPPORT = "support"
    Z = "z"


class Family(StrEnum):
    """Kinds of shapes."""

    PATH = "path"
    REPEAT = "repeat"
    HALF_LINK = "half-link"
    ATTRIBUTE = "attribute"


SHOWN = 20
"""Number of facts that are printed by default."""
Count = Annotated[int, listed("Number of rules to print.")]


@app.command(help=MINE)
@takes_reading()
def mine(
    graph: GraphName,
    length: Annotated[int, typer.Option(help="Longest path in a clause, 1 to 3.", min=1, max=3)] = 3,
    nulls: Annotated[
        int, typer.Option(help="Number of shuffled graphs to measure significance; 0 for none.", min=0)
    ] = 10,
    min_support: Annotated[
        int, typer.Option(help="Minimum number of facts that a rule in named relations must imply.", min=1)
    ] = 10,
    seconds: Annotated[
        float | None,
        typer.Option(
            help="Sample rules over the graph's relations for about this many seconds instead of counting every "
            "clause: "
            "for graphs with millions of facts. Without --nulls."
        ),
    ] = None,
    k: Count = 20,
    seed: Annotated[int, typer.Option(help="Seed for the shuffled graphs and samples.")] = 0,
    output: Text = TextFormat.TABLE,
    out: Annotated[Path | None, typer.Option(help="Write all rules to this JSON file, for show and apply.")] = None,
    *,
    reading: Reading,
    data_dir: DataDir = None,
) -> None:
    from anykg.answers.rules import rules as run
    from anykg.cli.loading import graph_named
    from anykg.cli.output import note, refuse_overwrite, say, show, write_result
    from anykg.cli.progress import progress_bar

    refuse_overwrite(out, graph)
    loaded = graph_named(graph, data_dir, reading)
    with progress_bar("mining") as advance:
        mined = run(
            loaded,
            length=length,
            nulls=nulls,
            min_support=min_support,
            seconds=seconds,
            seed=seed,
            progress=advance,
            resume=True,
        )
    written = f"Wrote {len(mined.rules.clauses)} clauses and {len(mined.rules.groundings)} groundings to {out}."
    if out:
        mined.save(out)
    if output is TextFormat.JSON:
        write_result(mined, "json")
        if out:
            note(written)
        return
    show(*mined.renderables(k))
    if out:
        say(written)


@app.command(help=SHOW)
def show(
    rules: Annotated[str, typer.Argument(help="A file of rules, or a clause in quotes.")],
    k: Count = 20,
    by: Annotated[Order, typer.Option(help="Sort order.")] = Order.CONFIDENCE,
    family: Annotated[Family | None, typer.Option(help="Only shapes of this kind.")] = None,
) -> None:
    from anykg.answers.rules import MinedRules, described
    from anykg.cli.output import say
    from anykg.cli.output import show as print_parts

    if "=>" not in rules:
        mined = MinedRules.load(rules)
        print_parts(*mined.renderables(k, by.value, None if family is None else family.value))
        return
    for name, text in described(rules).items():
        say(f"{name:<11}{text}")


@app.command(help=APPLY)
@takes_reading()
def apply(
    rules: Annotated[str, typer.Argument(help="A file of rules, or a clause in quotes.")],
    graph: GraphName,
    min_confidence: Annotated[
        float | None,
        typer.Option(
            help="Leave out rules with a lower confidence, measured on the graph they were mined on (default 0.1), "
            "or for "
            "a clause on this graph (default 0).",
            min=0,
            max=1,
        ),
    ] = None,
    k: Annotated[int | None, listed("Number of facts; default 20, all with --out.")] = None,
    format: Rows = None,
    out: RowsOut = None,
    *,
    reading: Reading,
    data_dir: DataDir = None,
) -> None:
    from anykg.answers.rules import apply_rules
    from anykg.cli.loading import graph_named
    from anykg.cli.output import chosen_format, note, write_result
    from anykg.cli.progress import progress_bar

    written_as = chosen_format(format, out, graph, rules)
    loaded = graph_named(graph, data_dir, reading)
    with progress_bar("applying") as advance:
        shown = SHOWN if k is None and out is None else k
        implied = apply_rules(rules, loaded, min_confidence=min_confidence, k=shown, progress=advance)
    write_result(implied, written_as, out, nothing="No unknown facts are implied.")
    if implied.sentence and written_as is not None:
        note(f"{implied.sentence}; --top sets the number.")
