"""Sampled rules: the counts of exact mining where everything is counted, and errors that hold where it is not."""

import numpy as np
import pytest

from anykg.answers.rules import MinedRules, rules
from anykg.errors import SettingError
from anykg.io.catalog import load_graph
from anykg.rules import sampled
from anykg.rules.ground import best_groundings
from anykg.rules.sampled import ratio_error, sampled_groundings

ATLAS = load_graph("atlas")


def test_where_all_starts_are_counted_the_counts_are_exact() -> None:
    found = sampled_groundings(ATLAS, 2, seconds=20, min_support=10, count=10_000)
    exact = {(str(rule.clause), rule.relations): rule for rule in best_groundings(ATLAS, 2, min_support=10, count=None)}
    assert len(found) > 20
    for rule in found:
        assert rule == exact[str(rule.clause), rule.relations]


def test_three_steps_have_clauses_of_three_steps() -> None:
    found = sampled_groundings(ATLAS, 3, seconds=20, min_support=10, count=10_000)
    assert {len(rule.clause.body) for rule in found} == {1, 2, 3}


def test_errors_of_a_sample_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = {(str(rule.clause), rule.relations): rule for rule in best_groundings(ATLAS, 2, min_support=10, count=None)}
    monkeypatch.setattr(sampled, "STARTS", 40)
    found = sampled_groundings(ATLAS, 2, seconds=20, min_support=10, count=10_000)
    some = [rule for rule in found if rule.error and (str(rule.clause), rule.relations) in exact]
    truth = [exact[str(rule.clause), rule.relations].confidence for rule in some]
    apart = np.array([abs(rule.confidence - true) / rule.error for rule, true in zip(some, truth, strict=True)])
    assert len(some) > 20
    assert (apart < 2).mean() > 0.8


def test_the_error_counts_starts_not_pairs() -> None:
    parts, wholes = np.array([100, 0]), np.array([100, 100])
    assert ratio_error(parts, wholes, 10**9) == pytest.approx(0.5, rel=0.01)
    assert ratio_error(parts, wholes, 2) == 0
    assert ratio_error(parts[:1], wholes[:1], 9) == np.inf


def test_sampled_rules_are_kept_with_their_errors(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(sampled, "STARTS", 40)
    mined = rules(ATLAS, length=2, seconds=10)
    mined.save(tmp_path / "rules.json")
    assert MinedRules.load(tmp_path / "rules.json").rules == mined.rules
    assert not mined.rules.clauses
    assert max(rule.error for rule in mined.rules.groundings) > 0
    monkeypatch.setattr(sampled, "WORK", 0)  # one start of several has no standard error
    rules(ATLAS, length=1, seconds=10).save(tmp_path / "few.json")
    with pytest.raises(SettingError, match="seconds"):
        rules(ATLAS, seconds=0)
