"""The command `anykg reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anykg.cli.options import DataDir
from anykg.cli.output import note, say

if TYPE_CHECKING:
    from anykg.benchmarks.experiment import Cell, Experiment

EXAMPLES = """
Reproduce one of the paper's tables or figures and compare the results with the published ones, or benchmark the
shipped models (zero-shot) and the commands that use them (answers).

Finished runs are skipped and stopped runs resumed, so the command can be repeated, or run several times in parallel.

Examples:

  anykg reproduce pediatypes

  anykg reproduce pediatypes --models gat,gin --tasks EN-FR --seeds 1

  anykg reproduce negative-transfer --models isdea+ --tasks infra,infra+loc

  anykg reproduce large --budget 60

  anykg reproduce wikitopics --cluster auto --runs /shared/runs

  anykg reproduce statistics

  anykg reproduce report

  anykg reproduce zero-shot --models anykg-base,models/ultra_3g

  anykg reproduce answers --models fit,pykeen-complex --tasks EN-FR --minutes 2
"""

NAMES = """pediatypes, negative-transfer, large, wikitopics, scaling, statistics, zero-shot or answers; report rewrites
all tables and docs/results.md from the results so far."""

MODELS = """Only these models, separated by commas. For answers, choose from zero-shot, fit, pykeen-complex,
pykeen-rotate, complete, audit, explain and departments."""

CLUSTER = """Run on the Ray cluster at this address (auto, HOST:PORT, or local for all cores of this machine); its
machines must share the folder of runs and have access to the datasets."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("reproduce", help=EXAMPLES)(reproduce)


def reproduce(
    name: Annotated[str, typer.Argument(help=NAMES)],
    models: Annotated[str | None, typer.Option(help=MODELS)] = None,
    tasks: Annotated[str | None, typer.Option(help="Only these tasks, separated by commas.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds, from 0.", min=1)] = None,
    budget: Annotated[float | None, typer.Option(help="Do not start new runs after this many minutes.")] = None,
    runs: Annotated[Path, typer.Option(help="Folder of runs.")] = Path("runs"),
    results: Annotated[Path, typer.Option(help="Folder of results.")] = Path("results"),
    limit: Annotated[int | None, typer.Option(help="zero-shot, answers: maximum number of test facts.", min=1)] = None,
    minutes: Annotated[str | None, typer.Option(help="answers: fitting times in minutes, separated by commas.")] = None,
    data_dir: DataDir = None,
    cluster: Annotated[str | None, typer.Option(help=CLUSTER)] = None,
    page: Annotated[Path, typer.Option(help="report: the page to write.")] = Path("docs/results.md"),
) -> None:
    from anykg.benchmarks.experiment import load_experiment
    from anykg.benchmarks.report import collect
    from anykg.benchmarks.runs import claimed, run_all

    if name == "zero-shot":
        _zero_shot(models, tasks, limit, results, data_dir)
        return
    if name == "answers":
        _answers(models, tasks, minutes, limit, results, data_dir)
        return
    if name == "statistics":
        _statistics(results, data_dir)
        return
    if name == "report":
        _report(results, page)
        return
    whole = load_experiment(name)
    part = whole.only(models.split(",") if models else None, tasks.split(",") if tasks else None, seeds)

    def tell(cell: Cell, text: str) -> None:
        say(f"{cell.model.name} {cell.task} seed {cell.seed}: {text}")

    if cluster is None:
        missing = run_all(part, runs, data_dir=data_dir, minutes=budget, tell=tell)
    else:
        from anykg.benchmarks.cluster import run_on

        missing = run_on(cluster, part, runs, data_dir=data_dir, minutes=budget, tell=tell)
    with claimed(results / whole.home, wait=True):  # another process may be gathering its own runs
        collect(part, runs, results)
        _write(whole, results)
    unfinished = f"; {missing} runs are missing: repeat the command" if missing else ""
    say(f"Tables: {results / name / 'table.md'} and .csv{unfinished}.")


def _write(experiment: Experiment, results: Path) -> None:
    """Write tables, and plots if matplotlib is installed."""
    from importlib.util import find_spec

    from anykg.benchmarks.report import write_tables

    figures = write_tables(experiment, results)
    if find_spec("matplotlib"):
        from anykg.benchmarks.plots import draw

        draw(experiment, figures, results)
    elif experiment.plot:
        note("No plots: matplotlib is not installed; run `pip install 'anykg[plot]'`.")


def _answers(
    systems: str | None,
    tasks: str | None,
    minutes: str | None,
    limit: int | None,
    results: Path,
    data_dir: Path | None,
) -> None:
    from anykg.benchmarks.answers.links import LIMIT, MINUTES
    from anykg.benchmarks.answers.run import SYSTEMS, run
    from anykg.benchmarks.answers.table import write_table
    from anykg.errors import ConfigError

    count = limit or LIMIT
    try:
        lengths = tuple(map(float, minutes.split(","))) if minutes else MINUTES
    except ValueError:
        raise ConfigError(f"--minutes: expected numbers separated by commas, such as 2,5; found {minutes}.") from None
    run(
        tasks.split(",") if tasks else None,
        lengths,
        systems=systems.split(",") if systems else SYSTEMS,
        results=results,
        limit=count,
        data_dir=data_dir,
        tell=say,
    )
    say(f"Table: {write_table(results, count)}.")


def _statistics(results: Path, data_dir: Path | None) -> None:
    from anykg.benchmarks import statistics_table

    statistics_table.run(results, data_dir)
    statistics_table.write_tables(results)
    say(f"Tables: {results / statistics_table.NAME / 'table.md'} and .csv.")


def _report(results: Path, page: Path) -> None:
    from anykg.atomic import write_text
    from anykg.benchmarks import statistics_table, zero_shot
    from anykg.benchmarks.answers import run as answers
    from anykg.benchmarks.answers.table import write_table as write_answers
    from anykg.benchmarks.experiment import load_experiment
    from anykg.benchmarks.overview import EXPERIMENTS, results_page

    statistics_table.write_tables(results)
    if (results / zero_shot.NAME / zero_shot.CELLS_FILE).exists():
        zero_shot.write_table(results)
    if (results / answers.NAME / answers.CELLS_FILE).exists():
        write_answers(results)
    for name in EXPERIMENTS:
        _write(load_experiment(name), results)
    write_text(page, results_page(results))
    say(f"Page: {page}. Tables: {results}/*/table.md and .csv.")


def _zero_shot(models: str | None, tasks: str | None, limit: int | None, results: Path, data_dir: Path | None) -> None:
    from anykg.benchmarks.zero_shot import GRAPHS, LIMITS, run, write_table
    from anykg.errors import ConfigError
    from anykg.models.folders import DEFAULT_MODEL
    from anykg.models.store import load_model

    names = models.split(",") if models else [DEFAULT_MODEL]
    called = [Path(name).name for name in names]
    if len(set(called)) < len(called):
        raise ConfigError(
            f"--models: expected models with different names, found {', '.join(called)}; rename a folder."
        )
    limits = {kind: count if limit is None else min(count, limit) for kind, count in LIMITS.items()}
    run(
        {short: load_model(name) for short, name in zip(called, names, strict=True)},
        tasks.split(",") if tasks else GRAPHS,
        results=results,
        limits=limits,
        data_dir=data_dir,
        tell=say,
    )
    say(f"Table: {write_table(results, limits)}.")
