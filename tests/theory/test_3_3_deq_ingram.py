"""Section 3.3: DEq-InGram, the mean over M draws (Eq. 1)."""

import numpy as np
import pytest
import torch

from anykg.models.ingram.ingram import Encoded
from graphs import random_graph
from theory.actions import act, build, triplets_of, whole

GRAPH = random_graph(8, 3, 20, seed=0)
PHI, TAU = np.roll(np.arange(8), 3), np.roll(np.arange(3), 1)
IMAGE = GRAPH.relabel(PHI, TAU)


@pytest.mark.parametrize("samples", [2, 5])
def test_equation_1_is_the_mean_of_independent_draws(samples: int) -> None:
    model = build("ingram", GRAPH, samples=samples)
    every = torch.from_numpy(triplets_of(GRAPH))
    with torch.no_grad():
        encoded = model.encode(GRAPH, seed=1)
        draws = [
            model.score_triplets(Encoded(entities, relations, 1), every)
            for entities, relations in zip(
                encoded.entities.chunk(samples, 1), encoded.relations.chunk(samples, 1), strict=True
            )
        ]
        together = model.score_triplets(encoded, every)
    torch.testing.assert_close(together, torch.stack(draws).mean(0))
    assert all(not torch.allclose(a, b) for i, a in enumerate(draws) for b in draws[:i])


def test_equation_1_needs_no_training() -> None:
    """The weights are those of InGram; only the number of draws at inference differs."""
    one = build("ingram", GRAPH)
    many = one.with_config(samples=10)
    assert all(torch.equal(value, many.state_dict()[name]) for name, value in one.state_dict().items())


def deviation(samples: int) -> float:
    """Mean squared difference between a graph and its renamed copy, drawn independently."""
    model = build("ingram", GRAPH, samples=samples)
    differences = [
        act(PHI, TAU, whole(model, GRAPH, 2 * seed)) - whole(model, IMAGE, 2 * seed + 1) for seed in range(40)
    ]
    return float(np.mean(np.square(differences)))


def test_theorem_2_8_the_deviation_from_equivariance_falls_as_one_over_m() -> None:
    one, many = deviation(1), deviation(16)
    assert 8 < one / many < 32  # 16 up to chance


def test_equation_1_reports_its_standard_error() -> None:
    """`score_errors` is what the mean of M draws may be off by: the deviations it predicts are those seen."""
    model = build("ingram", GRAPH, samples=8)
    every = torch.from_numpy(triplets_of(GRAPH))
    with torch.no_grad():
        errors = torch.stack([model.score_errors(model.encode(GRAPH, seed), every) for seed in range(40)])
        means = torch.stack([model.score_triplets(model.encode(GRAPH, seed), every) for seed in range(40)])
    assert 0.8 < float((errors**2).mean() / means.var(0).mean()) < 1.25
