"""`anykg rules`: mine clauses from a graph, show them, apply them to another."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anykg.cli.options import DataDir, GraphName
from anykg.cli.reading import Reading, takes_reading

if TYPE_CHECKING:
    from rich.table import Table

    from anykg.rules.mine import Measured
    from anykg.rules.store import NamedRule, RuleSet

app = typer.Typer(
    help="Rules over any entities and relations: mined on one graph, they apply to every other.", no_args_is_help=True
)

MINE = """
Find the clauses that hold in a graph: every shape up to a size, with its support, confidence and significance, and its
best groundings in this graph's relations.

Examples:

  anykg rules mine atlas

  anykg rules mine facts.tsv --length 2 --out rules.json

  anykg rules mine EN-FR --nulls 0 --format json
"""
SHOW = """
Show rules that were mined, or what a clause means.

Examples:

  anykg rules show rules.json

  anykg rules show rules.json --family path -k 50 --by z

  anykg rules show "(E1, C2, E3) & (E3, C1, E2) => (E1, C1, E2)"
"""
APPLY = """
Predict with clauses alone: the triplets they imply that are not known, best first, and why.

Examples:

  anykg rules apply rules.json facts.tsv

  anykg rules apply "(E1, C2, E3) & (E3, C1, E2) => (E1, C1, E2)" facts.tsv

  anykg rules apply rules.json EN-FR --min-confidence 0.2 -k 100 --out new.tsv
"""


class Format(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"


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


Count = Annotated[int, typer.Option("-k", help="How many to print.", min=1)]


@app.command(help=MINE)
@takes_reading()
def mine(
    graph: GraphName,
    length: Annotated[int, typer.Option(help="Longest path in a clause, 1 to 3.", min=1, max=3)] = 3,
    nulls: Annotated[int, typer.Option(help="Shuffled graphs for the significance; 0 for none.", min=0)] = 10,
    min_support: Annotated[int, typer.Option(help="Facts that a grounding must explain.", min=1)] = 10,
    k: Count = 20,
    seed: Annotated[int, typer.Option(help="Draws the shuffled graphs.")] = 0,
    output: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE,
    out: Annotated[Path | None, typer.Option(help="Write all rules to this JSON file.")] = None,
    *,
    reading: Reading,
    data_dir: DataDir = None,
) -> None:
    from anykg.cli.progress import progress_bar
    from anykg.io.catalog import load_graph
    from anykg.rules.ground import best_groundings
    from anykg.rules.mine import mine as run
    from anykg.rules.store import as_json, rule_set, save_rules

    loaded = load_graph(graph, data_dir, **reading)
    with progress_bar("mining") as advance:
        clauses = run(loaded, length=length, nulls=nulls, seed=seed, progress=advance)
    rules = rule_set(graph, loaded, clauses, best_groundings(loaded, length, min_support=min_support, count=1000))
    if out:
        save_rules(rules, out)
    if output is Format.JSON:
        typer.echo(json.dumps(as_json(rules), indent=1, ensure_ascii=False))
        return
    _print(rules, k, Order.CONFIDENCE, None)
    if out:
        typer.echo(f"Wrote {len(rules.clauses)} clauses and {len(rules.groundings)} groundings to {out}.")


@app.command(help=SHOW)
def show(
    rules: Annotated[str, typer.Argument(help="A file of rules, or a clause in quotes.")],
    k: Count = 20,
    by: Annotated[Order, typer.Option(help="What to sort by.")] = Order.CONFIDENCE,
    family: Annotated[Family | None, typer.Option(help="Only this kind of shape.")] = None,
) -> None:
    from anykg.rules.clause import parse
    from anykg.rules.store import load_rules

    if "=>" not in rules:
        _print(load_rules(rules), k, by, family)
        return
    clause = parse(rules)
    typer.echo(f"clause     {clause}")
    typer.echo(f"canonical  {clause.canonical()}")
    typer.echo(f"variables  {clause.num_entities} entities, {clause.num_relations} relations, all distinct")
    head = "an attribute of E1" if clause.attribute else "a link from E1 to E2"
    typer.echo(f"head       {head}" + ("; a tautology, the head is in the body" if clause.is_tautology else ""))


@app.command(help=APPLY)
@takes_reading()
def apply(
    rules: Annotated[str, typer.Argument(help="A file of rules, or a clause in quotes.")],
    graph: GraphName,
    min_confidence: Annotated[
        float,
        typer.Option(help="Only clauses of which so many implied triplets were facts, where mined.", min=0, max=1),
    ] = 0.1,
    k: Annotated[int, typer.Option("-k", help="How many triplets, the best first.", min=1)] = 20,
    output: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE,
    out: Annotated[Path | None, typer.Option(help="Write to a .tsv, .csv, .jsonl or .parquet file.")] = None,
    *,
    reading: Reading,
    data_dir: DataDir = None,
) -> None:
    from anykg.cli.progress import progress_bar
    from anykg.errors import ConfigError
    from anykg.io.catalog import load_graph
    from anykg.io.write import write_rows
    from anykg.rules.apply import apply as run
    from anykg.rules.clause import parse
    from anykg.rules.store import load_rules

    if out is not None and out.resolve() in (Path(graph).resolve(), Path(rules).resolve()):
        raise ConfigError(f"--out: {out} is what is read, and would be lost; give another name.")
    if "=>" in rules:
        chosen = [(parse(rules), 1.0)]
    else:
        found = load_rules(rules).clauses
        chosen = [(m.clause, m.confidence) for m in found if m.confidence >= min_confidence]
        if not chosen:
            best = max((m.confidence for m in found), default=0.0)
            raise ConfigError(f"--min-confidence: no clause has {min_confidence}; the best one has {best:.3f}.")
    loaded = load_graph(graph, data_dir, **reading)
    with progress_bar("applying") as advance:
        rows = run(chosen, loaded, k=k, progress=advance)
    if out:
        write_rows(rows, out)
        typer.echo(f"Wrote {len(rows)} triplets to {out}.")
    elif output is Format.JSON:
        typer.echo(json.dumps(rows.to_dicts(), indent=1, ensure_ascii=False))
    elif rows.is_empty():
        typer.echo("Nothing that is not known is implied.")
    else:
        for row in rows.iter_rows(named=True):
            typer.echo(f"{row['score']:.3f}  ({row['head']}, {row['relation']}, {row['tail']})")
            typer.echo(f"       because {row['because']}\n       by {row['clause']}")


def _print(rules: RuleSet, k: int, by: Order, family: Family | None) -> None:
    from rich.console import Console

    console = Console(soft_wrap=not Console().is_terminal)
    shown = [m for m in rules.clauses if family is None or m.family == family]
    shown.sort(key=lambda m: -_value(m, by))
    console.print(_clause_table(f"clauses on {rules.graph}, any entities and relations", shown[:k]))
    if rules.groundings and family in (None, Family.PATH):
        best = sorted(rules.groundings, key=lambda g: -_value(g, by))[:k]
        console.print(_rule_table(f"rules in relations of {rules.graph}", best))


def _value(rule: Measured | NamedRule, by: Order) -> float:
    if by is Order.SUPPORT:
        return rule.support
    if by is Order.CONFIDENCE:
        return rule.confidence
    null = getattr(rule, "null", None)
    if by is Order.Z and null is not None:
        return float(null.z)
    return rule.pca_confidence


def _clause_table(title: str, rows: list[Measured]) -> Table:
    table = _table(title, "clause", "family", "z")
    for m in rows:
        z = "" if m.null is None else f"{m.null.z:.1f}"
        table.add_row(*_numbers(m), z, m.family, str(m.clause))
    return table


def _rule_table(title: str, rows: list[NamedRule]) -> Table:
    from rich.text import Text

    table = _table(title, "rule")
    for rule in rows:
        table.add_row(*_numbers(rule), Text(rule.rule))
    return table


def _table(title: str, last: str, *more: str) -> Table:
    from rich.table import Table

    table = Table(title=title, box=None, pad_edge=False, title_justify="left")
    for name in ("support", "coverage", "conf.", "pca conf.", *reversed(more)):
        table.add_column(name, justify="left" if name == "family" else "right")
    table.add_column(last, overflow="fold")
    return table


def _numbers(rule: Measured | NamedRule) -> tuple[str, str, str, str]:
    return f"{rule.support:,}", f"{rule.head_coverage:.3f}", f"{rule.confidence:.3f}", f"{rule.pca_confidence:.3f}"
