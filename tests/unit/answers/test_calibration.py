"""The regressions behind probabilities: whether a list lacks an answer, and answers that are told by chance."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize

from anykg.answers.calibrating import cache, calibration
from anykg.answers.calibrating.calibration import Evidence, fit


def test_lists_without_their_answer_are_told_from_those_with_it() -> None:
    """Of facts that were not used for calibrating: lists as they are, and without the right answers."""
    random = np.random.default_rng(0)
    count, width = 400, 10
    scores = -np.sort(-random.normal(size=(count, width)), axis=1)
    right = np.zeros((count, width), bool)
    right[:, 0] = True
    scores[:, 0] += random.exponential(2.0, count)

    def evidence(rows: slice) -> Evidence:
        part = scores[rows]
        flat = part.ravel()
        following = np.column_stack([part[:, 1:], np.full(len(part), -np.inf)]).ravel()
        questions = np.repeat(np.arange(len(part)), width)
        totals = np.repeat(np.logaddexp.reduce(part, axis=1), width)
        zeros = np.zeros(len(flat), np.int64)
        return Evidence(questions, zeros, flat, np.repeat(part[:, 0], width), following, totals, zeros)

    found = fit(evidence(slice(0, 200)), right[:200].ravel(), ["r"])
    rest, truth = evidence(slice(200, None)), right[200:].ravel()
    gone = calibration.struck_out(rest, truth)
    assert gone.scores.tolist() == rest.scores[~truth].tolist()
    assert (gone.scores <= gone.leading).all()
    assert np.exp(gone.scores - gone.totals).reshape(200, -1).sum(1) == pytest.approx(1.0)
    half = np.full(200, 0.5)
    there, lost = found.present(rest, half), found.present(gone, half)
    assert there.mean() > lost.mean() + 0.2
    assert np.concatenate([there, lost]).mean() == pytest.approx(0.5, abs=0.06)
    assert found.present(rest, np.full(200, 1e-3)).max() < 0.1  # the chance of the question still counts


def test_totals_say_nothing_about_lists_of_log_probabilities() -> None:
    """Their totals are all 0, until an answer is struck out."""
    random = np.random.default_rng(0)
    scores = -np.sort(random.exponential(2.0, (200, 5)), axis=1)
    scores -= np.log(np.exp(scores).sum(1, keepdims=True))
    questions, flat = np.repeat(np.arange(200), 5), scores.ravel()
    following = np.column_stack([scores[:, 1:], np.full(200, -np.inf)]).ravel()
    zeros = np.zeros(1000, np.int64)
    lists = calibration.Evidence(questions, zeros, flat, np.repeat(scores[:, 0], 5), following, np.zeros(1000), zeros)
    truth = np.tile(np.arange(5) == 0, 200)
    made = calibration.fit(lists, truth, ["r"])
    assert made.presence[calibration.TOTAL] == 0
    other = lists._replace(scores=flat - 300, leading=lists.leading - 300, following=following - 300)
    chances = np.full(200, 0.5)
    moved = other._replace(totals=np.full(1000, -300.0))  # scores that are not normalised
    np.testing.assert_allclose(made.present(moved, chances), made.present(lists, chances), atol=1e-6)


def test_answers_told_by_chance_are_fitted_from_the_convex_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """From zero, a fit can end where rare answers are all taken for sure, and its loss is flat."""
    starts, ends_at = [], []
    minimize = scipy.optimize.minimize

    def spy(objective: object, start: np.ndarray, *arguments: object, **options: object) -> object:
        starts.append(start)
        found = minimize(objective, start, *arguments, **options)
        ends_at.append(found.x)
        return found

    random = np.random.default_rng(0)
    columns = np.column_stack([np.ones(2000), random.normal(size=2000)])
    right = random.random(2000) < 0.5 * calibration.expit(2 * columns[:, 1] - 1)
    ends, none = np.zeros(2000, np.int64), np.zeros(2000)
    monkeypatch.setattr(scipy.optimize, "minimize", spy)
    calibration.logistic(columns, none, ends, right, 1, 10.0)
    found, _ = calibration.logistic(columns, none, ends, right, 1, 10.0, np.full(2000, 0.5))
    assert len(starts) == 3
    np.testing.assert_allclose(starts[2], ends_at[0])  # where the convex fit ends
    np.testing.assert_allclose(found, [-1, 2], atol=0.4)


def test_nearly_collinear_columns_are_fitted_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """And to the optimum: the gradient of the penalised loss is zero there."""
    steps = []
    minimize = scipy.optimize.minimize

    def spy(*arguments: object, **options: object) -> object:
        found = minimize(*arguments, **options)
        steps.append(found.nit)
        return found

    random = np.random.default_rng(0)
    one, far = random.normal(size=4000) - 20, np.clip(random.exponential(2, size=4000), 0, 8)
    noise, ranks = 0.1 * random.normal(size=4000), np.tile(np.arange(1, 21), 200)
    columns = np.column_stack([np.ones(4000), one, one + noise, far, far - noise, np.log(ranks), one - far])
    groups = random.integers(20, size=4000)
    right = random.random(4000) < calibration.expit(one + 18 - far)
    monkeypatch.setattr(scipy.optimize, "minimize", spy)
    none, strength = np.zeros(4000), 2.0
    weights, effects = calibration.logistic(columns, none, groups, right, 20, strength)
    assert max(steps) < 40
    slope = calibration.expit(columns @ weights + effects[groups, 0]) - right
    scale = np.maximum(np.abs(columns).mean(0), 1e-3)
    np.testing.assert_allclose(columns.T @ slope / scale, -calibration.RIDGE * weights * scale, atol=0.05)
    np.testing.assert_allclose(np.bincount(groups, slope), -strength * effects[:, 0], atol=0.05)


def test_calibrations_of_another_version_are_not_used(tmp_path: Path) -> None:
    zeros = np.zeros(4, np.int64)
    scores = np.array([2.0, 1.0, 2.0, 1.0])
    evidence = Evidence(np.array([0, 0, 1, 1]), zeros, scores, scores, scores, scores, zeros)
    kept = fit(evidence, np.array([True, False, True, False]), ["r"]).to_dict()
    path = tmp_path / "kept.json"
    path.write_text(json.dumps(kept), encoding="utf-8")
    found = cache.load(path)
    assert found is not None
    assert found.to_dict() == calibration.from_dict(kept).to_dict()
    path.write_text(json.dumps(kept | {"version": calibration.VERSION - 1}), encoding="utf-8")
    assert cache.load(path) is None
    del kept["version"]
    path.write_text(json.dumps(kept), encoding="utf-8")
    assert cache.load(path) is None
