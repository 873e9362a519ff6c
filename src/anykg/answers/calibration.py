"""Scores as probabilities: an isotonic curve fitted to the best answers about hidden facts.

A probability says how often answers of such a score were right where a fact was missing. It holds for one model on one
graph; curves are kept in the user's cache under the digests of both.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np

from anykg.atomic import write_json
from anykg.evaluation.protocol import Target
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor

BINS = 15
FEWEST = 20
"""Answers averaged into a point of the curve, at least."""
MOST_POINTS = 100


@dataclass(frozen=True)
class Curve:
    """Probabilities at scores, both rising; between two scores on the line between them, beyond them constant."""

    scores: tuple[float, ...]
    probabilities: tuple[float, ...]
    answers: int
    """How many it was fitted to."""
    error: float | None
    """Expected calibration error on answers it was not fitted to: fitted to one half of the questions, tried on the
    other, both ways."""

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """Probabilities of scores."""
        result: np.ndarray = np.interp(scores, self.scores, self.probabilities).astype(np.float32)
        return result


def fit(questions: np.ndarray, scores: np.ndarray, right: np.ndarray) -> Curve:
    """The curve of answers [A], and its error across questions."""
    even = np.unique(questions, return_inverse=True)[1].reshape(-1) % 2 == 0
    first, second = np.flatnonzero(even), np.flatnonzero(~even)
    error = None
    if len(first) and len(second):
        guesses = np.empty(len(scores))
        for mine, others in ((first, second), (second, first)):
            guesses[others] = np.interp(scores[others], *_isotonic(scores[mine], right[mine]))
        error = expected_calibration_error(guesses, right)
    at, probabilities = _isotonic(scores, right)
    return Curve(tuple(at.tolist()), tuple(probabilities.tolist()), len(scores), error)


def expected_calibration_error(probabilities: np.ndarray, right: np.ndarray, bins: int = BINS) -> float:
    """The mean over answers of |stated - found| in bins of equal count."""
    parts = np.array_split(np.argsort(probabilities, kind="stable"), bins)
    gaps = [len(part) * abs(probabilities[part].mean() - right[part].mean()) for part in parts if len(part)]
    return float(sum(gaps) / max(len(right), 1))


def _isotonic(scores: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of neighbouring scores made to rise by pooling those that do not (pool adjacent violators)."""
    order = np.argsort(scores, kind="stable")
    count = int(np.clip(len(scores) // FEWEST, 1, MOST_POINTS))
    blocks: list[tuple[float, float, float]] = []  # answers, their mean score, how many were right
    for part in np.array_split(order, count):
        blocks.append((float(len(part)), float(scores[part].mean()), float(right[part].sum())))
        while len(blocks) > 1 and blocks[-2][2] / blocks[-2][0] >= blocks[-1][2] / blocks[-1][0]:
            (n, score, hits), (m, other, more) = blocks[-2:]
            blocks[-2:] = [(n + m, (n * score + m * other) / (n + m), hits + more)]
    # Half an answer right and half one wrong more: nothing is certain from a few.
    means = np.array([(hits + 0.5) / (n + 1) for n, _, hits in blocks])
    return np.array([score for _, score, _ in blocks]), np.maximum.accumulate(means)


def digest_of(model: LinkPredictor) -> str:
    """A hash of a model's kind, settings and weights."""
    content = blake2b(f"{type(model).__qualname__} {getattr(model, 'config', None)}".encode(), digest_size=16)
    for key, value in sorted(model.state_dict().items()):
        content.update(key.encode() + value.detach().cpu().contiguous().numpy().tobytes())
    return content.hexdigest()


def place_of(graph: KnowledgeGraph, model: LinkPredictor, task: Target) -> Path:
    """Where the curve of a model on a graph is kept."""
    from platformdirs import user_cache_path

    name = f"{graph.digest[:16]}-{digest_of(model)[:16]}-{task}.json"
    return Path(user_cache_path("anykg")) / "calibration" / name


def save(curve: Curve, path: Path) -> None:
    """Keep a curve."""
    write_json(path, asdict(curve))


def load(path: Path) -> Curve | None:
    """A kept curve; None if there is none that can be read."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        curve = Curve(tuple(values["scores"]), tuple(values["probabilities"]), values["answers"], values["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return curve if len(curve.scores) == len(curve.probabilities) > 0 else None
