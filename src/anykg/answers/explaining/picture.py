"""Draw the facts of an explanation: head on the left, tail on the right, reasons in between."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anykg.atomic import atomic_path
from anykg.errors import ConfigError

if TYPE_CHECKING:
    from anykg.answers.explaining.explanation import Explanation

FORMATS = (".svg", ".png")
LONGEST_NAME = 26


def can_draw(path: Path | str) -> None:
    """Raise if a file cannot be drawn to, before any work is done."""
    if Path(path).suffix not in FORMATS:
        raise ConfigError(f"{path}: expected a name that ends with {' or '.join(FORMATS)}.")
    if find_spec("matplotlib") is None:
        raise ConfigError("Drawing needs matplotlib; install it with `pip install 'anykg[plot]'`.")


def draw(explanation: Explanation, path: Path | str) -> None:
    """Write an .svg or .png file; the explained triplet is the dashed arrow."""
    can_draw(path)
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    path = Path(path)
    graph, coordinates = explanation.graph, layout(explanation)
    facts = np.unique(np.concatenate([np.empty((0, 3), np.int64), *_reasons(explanation)]), axis=0)
    low, high = (pick(*(y for _, y in coordinates.values()), bound) for pick, bound in ((min, -0.5), (max, 0.5)))
    width, height = 11.0, 2.5 * (high - low) + 1.0
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(-0.12, 1.12), ylim=(low - 0.2, high + 0.2))
    axes.set_axis_off()
    tall = (height / (high - low + 0.4)) / (width / 1.24)  # inches per unit of y over inches per unit of x
    asked = explanation.triplet
    drawn: dict[tuple[int, int], int] = {}
    for head, relation, tail in [*facts.tolist(), asked.tolist()]:
        is_asked = [head, relation, tail] == asked.tolist()
        pair = (min(head, tail), max(head, tail))
        bend = 0.12 * drawn.get(pair, 0) + (0.35 if is_asked else 0.0)
        drawn[pair] = drawn.get(pair, 0) + 1
        colour, style = ("#c0392b", "dashed") if is_asked else ("#2c3e50", "solid")
        (x0, y0), (x1, y1) = coordinates[head], coordinates[tail]
        arrow = {"arrowstyle": "-|>", "color": colour, "linestyle": style, "shrinkA": 16, "shrinkB": 16}
        arrow["connectionstyle"] = f"arc3,rad={bend}"
        axes.annotate("", (x1, y1), (x0, y0), arrowprops=arrow)
        # A bent arrow's middle lies half its bend to the right of the straight one, on paper.
        middle = ((x0 + x1) / 2 + bend * (y1 - y0) * tall / 2, (y0 + y1) / 2 - bend * (x1 - x0) / tall / 2)
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        name = _short(graph.relations.label(relation))
        axes.text(*middle, name, fontsize=7, color=colour, ha="center", va="center", bbox=paper)
    for entity, (x, y) in coordinates.items():
        ends = entity in (asked[0], asked[2])
        box = {"boxstyle": "round", "facecolor": "#fdebd0" if ends else "#eaf2f8", "edgecolor": "#7f8c8d"}
        axes.text(x, y, _short(graph.entities.label(entity)), fontsize=8, ha="center", va="center", bbox=box, zorder=3)
    # Equal explanations give equal files.
    with rc_context({"svg.hashsalt": "anykg"}), atomic_path(path) as temporary:
        metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(temporary, format=path.suffix[1:], dpi=150, metadata=metadata)


def layout(explanation: Explanation) -> dict[int, tuple[float, float]]:
    """Coordinates of each entity: x by its position on the paths between the two ends, y alternately up and down."""
    head, tail = int(explanation.triplet[0]), int(explanation.triplet[2])
    along: dict[int, list[float]] = {}
    for path in explanation.paths:
        for step, node in enumerate(path.nodes[1:-1], start=1):
            along.setdefault(node, []).append(step / (len(path.nodes) - 1))
    for facts in _reasons(explanation):
        for node in np.unique(facts[:, [0, 2]]).tolist():
            along.setdefault(node, [0.5])
    coordinates = {head: (0.0, 0.0), tail: (1.0, 0.0)}
    levels: dict[float, int] = {}
    for node, positions in sorted(along.items()):
        if node in (head, tail):
            continue
        x = round(float(np.mean(positions)) * 6) / 6
        x = min(max(x, 1 / 6), 5 / 6)
        level = levels[x] = levels.get(x, 0) + 1
        # Columns are shifted against each other, so that no arrow runs along a row of names.
        coordinates[node] = (x, 0.5 * ((level + 1) // 2) * (1 if level % 2 else -1) + 0.12 * (round(6 * x) % 3 - 1))
    return coordinates


def _reasons(explanation: Explanation) -> list[np.ndarray]:
    """The facts of the paths, or of the clauses if there are none."""
    return [path.facts for path in explanation.paths] or [match.facts for match in explanation.matches]


def _short(name: str) -> str:
    """The end of a long name, which distinguishes IRIs."""
    return name if len(name) <= LONGEST_NAME else "…" + name[1 - LONGEST_NAME :]
