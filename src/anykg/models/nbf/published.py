"""Settings and parameters of Ultra and TRIX from the state dicts of their public implementations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, stack

from anykg.errors import CheckpointError
from anykg.models.nbf.trix import TRIXConfig
from anykg.models.nbf.ultra import UltraConfig

State = Mapping[str, Tensor]
Parameters = dict[str, Tensor]

KINDS = ("hh", "tt", "ht", "th")
"""Link types in our order, by their public names."""
_STEP = {
    "first": "relation_projection.0.weight",
    "first_bias": "relation_projection.0.bias",
    "second": "relation_projection.2.weight",
    "second_bias": "relation_projection.2.bias",
    "linear": "linear.weight",
    "bias": "linear.bias",
    "scale": "layer_norm.weight",
    "shift": "layer_norm.bias",
}


def import_ultra_weights(state: State) -> tuple[UltraConfig, Parameters]:
    """Settings and parameters of a published Ultra model (the `model` entry of its file)."""
    with _published("Ultra"):
        width = state["entity_model.layers.0.layer_norm.weight"].shape[0]
        relations, entities = _layers(state, "relation_model"), _layers(state, "entity_model")
        types = [state[f"relation_model.layers.{i}.relation.weight"] for i in range(relations)]
        result = {"relation_network.types": stack(types)}
        result |= _network(state, "relation_network", "relation_model", relations, weights=False)
        result |= _network(state, "entity_network", "entity_model", entities)
        result |= _mlp(state, "entity_network.", "entity_model.")
        return UltraConfig(width, relations, entities), result


def import_trix_weights(state: State) -> tuple[TRIXConfig, Parameters]:
    """Settings and parameters of a published TRIX model, of the one for entities or of the one for relations."""
    with _published("TRIX"):
        return _trix_entities(state) if "relation_model.node_mlp.bias" in state else _trix_relations(state)


def _trix_entities(state: State) -> tuple[TRIXConfig, Parameters]:
    steps = _count(state, "relation_model.layers_hh.")
    early, late = _layers(state, "entity_model_mini"), _layers(state, "entity_model")
    result = _step(state, "entities.first", "relation_model", 0)
    for index in range(1, steps):
        result |= _step(state, f"entities.steps.{index - 1}", "relation_model", index)
    for kind in ("weight", "bias"):
        result[f"entities.join.{kind}"] = state[f"relation_model.node_mlp.{kind}"]
    result |= _network(state, "entities.early", "entity_model_mini", early)
    result |= _network(state, "entities.late", "entity_model", late)
    result |= _mlp(state, "entities.late.", "entity_model.")
    config = TRIXConfig(
        width=len(state["relation_model.node_mlp.bias"]),
        networks="entity",
        early_layers=early,
        relation_steps=steps - 1,
        entity_layers=late,
    )
    return config, result


def _trix_relations(state: State) -> tuple[TRIXConfig, Parameters]:
    rounds, steps = _count(state, "relation_model."), _count(state, "relation_model.0.layers_hh.")
    layers = _layers(state, "entity_model.0")
    result = _mlp(state, "relations.", "")
    for number in range(rounds):
        ours, theirs = f"relations.rounds.{number}", f"entity_model.{number}"
        result |= _network(state, f"{ours}.network", theirs, layers) | _mlp(state, f"{ours}.", f"{theirs}.")
        for index in range(steps):
            result |= _step(state, f"{ours}.steps.{index}", f"relation_model.{number}", index)
    width = len(state["mlp.0.bias"])
    config = TRIXConfig(width=width, networks="relation", rounds=rounds, round_layers=layers, round_steps=steps)
    return config, result


def _count(state: State, prefix: str) -> int:
    """How many numbered parts follow a prefix."""
    return 1 + max(int(key.removeprefix(prefix).split(".")[0]) for key in state if key.startswith(prefix))


def _layers(state: State, name: str) -> int:
    return _count(state, f"{name}.layers.")


def _network(state: State, ours: str, theirs: str, depth: int, *, weights: bool = True) -> Parameters:
    """Bellman-Ford layers, with the MLPs of relation vectors if they have `weights` of that kind."""
    result: Parameters = {}
    for layer in range(depth):
        for kind in ("weight", "bias"):
            prefix = f"{theirs}.layers.{layer}"
            result[f"{ours}.layers.{layer}.linear.{kind}"] = state[f"{prefix}.linear.{kind}"]
            result[f"{ours}.layers.{layer}.norm.{kind}"] = state[f"{prefix}.layer_norm.{kind}"]
            for index in (0, 2) if weights else ():
                key = f"{prefix}.relation_projection.{index}.{kind}"
                result[f"{ours}.relations.{layer}.{index}.{kind}"] = state[key]
    return result


def _step(state: State, ours: str, theirs: str, index: int) -> Parameters:
    return {
        f"{ours}.{name}": stack([state[f"{theirs}.layers_{kind}.{index}.{key}"] for kind in KINDS])
        for name, key in _STEP.items()
    }


def _mlp(state: State, ours: str, theirs: str) -> Parameters:
    return {
        f"{ours}{name}.{kind}": state[f"{theirs}mlp.{index}.{kind}"]
        for name, index in (("hidden", 0), ("last", 2))
        for kind in ("weight", "bias")
    }


@contextmanager
def _published(name: str) -> Iterator[None]:
    """Raise an error that says what was expected if a parameter is missing or has an unexpected name or shape."""
    try:
        yield
    except (KeyError, ValueError, IndexError, RuntimeError) as error:
        raise CheckpointError(
            f"Expected the state dict of a published {name} model, found none of {error}; give its `model` entry."
        ) from error
