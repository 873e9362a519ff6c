"""Training a little further: what is hidden, what is kept."""

from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from anykg.errors import CheckpointError, ConfigError, DataError
from anykg.models.homogeneous import GIN
from anykg.models.ingram.ingram import InGram
from anykg.models.store import load_model
from anykg.training import finetune as module
from anykg.training.finetune import finetune, hidden_facts, recipe_for
from graphs import named, random_graph

GRAPH = random_graph(30, 3, 300)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second passes with every look at the clock, so that six steps take a tenth of a minute."""
    ticks = count()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))


def model() -> GIN:
    torch.manual_seed(0)
    return GIN(GIN.Config(width=8))


def test_hidden_facts_are_apart() -> None:
    rest, choosing, comparing = hidden_facts(GRAPH, 0)
    assert len(rest) + len(choosing) + len(comparing) == len(GRAPH)
    assert rest.union(choosing).union(comparing) == GRAPH
    assert set(rest.triplets[:, [0, 2]].ravel()) == set(GRAPH.triplets[:, [0, 2]].ravel())


@pytest.mark.parametrize("figures", [(0.2, 0.3), (0.3, 0.2)])
def test_the_better_weights_are_kept(
    figures: tuple[float, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remaining = iter(figures)
    monkeypatch.setattr(module, "_mrr", lambda *_: next(remaining))
    monkeypatch.setattr(module, "STEPS", 2)
    spent: list[float] = []
    outcome = finetune(
        "gin", model(), GRAPH, out=tmp_path, minutes=0.1, on_time=lambda seconds, _: spent.append(seconds)
    )
    assert (outcome.before, outcome.after) == figures
    assert outcome.steps == len(spent) == 7  # the one that ends it is not kept: it came after the last validation
    original, kept = model().state_dict(), load_model(tmp_path).state_dict()
    assert outcome.better is (figures[1] > figures[0])
    assert outcome.better is any(not torch.equal(original[key], kept[key]) for key in original)


def test_it_learns(tmp_path: Path) -> None:
    lines = [f"a{i} r b{i % 4}" for i in range(60)] + [f"a{i} s c{i % 4}" for i in range(60)]
    outcome = finetune("gin", model(), named(*lines), out=tmp_path, minutes=1)
    assert outcome.after > outcome.before


def test_an_interrupted_one_leaves_no_model_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEPS", 2)

    def stop(spent: float, _: float) -> None:
        if spent > 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        finetune("gin", model(), GRAPH, out=tmp_path, minutes=1, on_time=stop)
    with pytest.raises(CheckpointError, match=r"found no model\.json"):
        load_model(tmp_path)
    with pytest.raises(CheckpointError, match="started_from"):
        finetune("gin", model(), GRAPH, out=tmp_path, minutes=0.1, resume=True, started_from="another")
    finetune("gin", model(), GRAPH, out=tmp_path, minutes=0.1, resume=True)
    load_model(tmp_path)
    with pytest.raises(ConfigError, match="holds a model already"):
        finetune("gin", model(), GRAPH, out=tmp_path, minutes=0.1)


def test_models_that_take_the_graph_whole_are_validated_too() -> None:
    assert recipe_for(InGram()).validate_every == module.STEPS
    assert recipe_for(model()).validate_every == 1


def test_what_cannot_be_done(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="too few to tell"):
        finetune("gin", model(), named("a r b", "c s d"), out=tmp_path, minutes=1)
    with pytest.raises(ConfigError, match="--minutes"):
        finetune("gin", model(), GRAPH, out=tmp_path, minutes=0)
