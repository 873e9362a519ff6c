import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anykg.evaluation.ranks import Ranks, Ties, rank


def test_ties_are_kept_apart() -> None:
    ranks = rank(torch.tensor([[1.0, 2.0, 1.0, 1.0, 0.0]]), torch.tensor([0]))
    assert (ranks.better.tolist(), ranks.ties.tolist(), ranks.candidates.tolist()) == ([1], [2], [5])
    assert [ranks.by(t)[0] for t in (Ties.OPTIMISTIC, Ties.REALISTIC, Ties.PESSIMISTIC)] == [2, 3, 4]


def test_ignored_candidates_do_not_count_but_the_answer_does() -> None:
    scores = torch.tensor([[1.0, 5.0, 4.0, 0.0]])
    ignored = torch.tensor([[True, True, False, False]])
    ranks = rank(scores, torch.tensor([0]), ignored)
    assert (ranks.by(Ties.REALISTIC)[0], ranks.candidates[0]) == (2, 3)


def test_nan_is_refused() -> None:
    with pytest.raises(FloatingPointError, match="1 of 2 scores are NaN"):
        rank(torch.tensor([[float("nan"), 0.0]]), torch.tensor([0]))


@given(st.integers(0, 2**32 - 1))
def test_against_sorting(seed: int) -> None:
    random = np.random.default_rng(seed)
    scores = random.integers(0, 6, size=(7, 9)).astype(np.float32)
    answers = random.integers(0, 9, size=7)
    ranks = rank(torch.from_numpy(scores), torch.from_numpy(answers))
    for row in range(7):
        order = np.sort(scores[row])[::-1].tolist()
        first = order.index(scores[row, answers[row]]) + 1
        last = 9 - order[::-1].index(scores[row, answers[row]])
        assert ranks.by(Ties.OPTIMISTIC)[row] == first
        assert ranks.by(Ties.PESSIMISTIC)[row] == last


def test_random_ranks_among_50_ties() -> None:
    """Uniform ranks give Hits@10 = 10/51; the paper's rounding makes the ends half as likely: 9.5/50."""
    count = 200_000
    tied = Ranks(np.zeros(count, int), np.full(count, 50), np.full(count, 51))
    for ties, expected in ((Ties.RANDOM, 10 / 51), (Ties.ROUNDED, 9.5 / 50)):
        ranks = tied.by(ties, seed=3)
        assert np.mean(ranks <= 10) == pytest.approx(expected, abs=0.004)
        assert (ranks.min(), ranks.max()) == (1, 51)
        assert (ranks == tied.by(ties, seed=3)).all()
