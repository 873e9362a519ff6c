"""Import weights of the public implementations; their files are never unpickled as objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from anykg.errors import CheckpointError, first_line
from anykg.models.base import LinkPredictor
from anykg.models.store import load_tensors


def import_weights(*paths: Path) -> tuple[str, LinkPredictor]:
    """The name of the model that a file's parameters belong to, and that model with these parameters.

    TRIX is published in two files, for entities and for relations; both together make one model.
    """
    imported = [_import_file(path) for path in paths]
    if len(imported) == 1:
        return imported[0]
    from anykg.models.nbf.trix import TRIX, joined

    models = [model for _, model in imported if isinstance(model, TRIX)]
    if len(imported) != 2 or len(models) != 2 or {model.config.networks for model in models} != {"entity", "relation"}:
        names = " and ".join(f"{name} in {path}" for (name, _), path in zip(imported, paths, strict=True))
        raise CheckpointError(
            f"Only the two files of TRIX, for entities and for relations, can be combined; found {names}."
        )
    return "trix", joined(*models)


def _import_file(path: Path) -> tuple[str, LinkPredictor]:
    weights = _read(path)
    for name, sign, convert in FAMILIES:
        if sign in weights:
            try:
                model = convert(weights)
            except Exception as error:  # a damaged file can fail in any way
                raise CheckpointError(
                    f"{path}: not the parameters of {name} as published ({type(error).__name__}: {first_line(error)})."
                ) from error
            if not all(bool(torch.isfinite(tensor).all()) for tensor in model.state_dict().values()):
                raise CheckpointError(
                    f"{path}: expected finite parameters of {name}, found others; the file is damaged."
                )
            return name, model
    known = ", ".join(dict.fromkeys(name for name, _, _ in FAMILIES))
    raise CheckpointError(
        f"{path}: expected parameters of the public {known}; found {', '.join(list(weights)[:3])}, ..."
    )


def _read(path: Path) -> dict[str, Tensor]:
    if path.suffix == ".safetensors":
        return load_tensors(path)[0]
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (
        Exception
    ) as error:  # a damaged pickle fails in any way: struct.error, UnicodeDecodeError, AssertionError, ...
        raise CheckpointError(
            f"{path}: cannot be read as a file of weights ({type(error).__name__}: {first_line(error)})."
        ) from error
    content = content.get("model", content) if isinstance(content, dict) else {}
    content = content if isinstance(content, dict) else {}
    weights = {key: value for key, value in content.items() if isinstance(key, str) and isinstance(value, Tensor)}
    if not weights:
        raise CheckpointError(f"{path}: expected named tensors, found none.")
    return weights


def _ultra(weights: Mapping[str, Tensor]) -> LinkPredictor:
    from anykg.models.nbf.published import import_ultra_weights
    from anykg.models.nbf.ultra import Ultra

    config, state = import_ultra_weights(weights)
    model = Ultra(config)
    model.load_state_dict(state)
    return model


def _trix(weights: Mapping[str, Tensor]) -> LinkPredictor:
    from anykg.models.nbf.published import import_trix_weights
    from anykg.models.nbf.trix import TRIX

    config, state = import_trix_weights(weights)
    model = TRIX(config)
    model.load_state_dict(state)
    return model


def _isdea(weights: Mapping[str, Tensor]) -> LinkPredictor:
    from anykg.models.isdea.isdea import ISDEA, import_isdea_weights

    model = ISDEA()
    model.load_state_dict(import_isdea_weights(weights))
    return model


def _ingram(weights: Mapping[str, Tensor]) -> LinkPredictor:
    from anykg.models.ingram.ingram import import_ingram_weights

    return import_ingram_weights(weights)


FAMILIES: list[tuple[str, str, Callable[[Mapping[str, Tensor]], LinkPredictor]]] = [
    ("trix", "relation_model.node_mlp.bias", _trix),
    ("trix", "relation_model.0.layers_hh.0.linear.bias", _trix),
    ("ultra", "entity_model.layers.0.layer_norm.weight", _ultra),
    ("isdea+", "mlp_r_not.linear1.weight", _isdea),
    ("ingram", "ent_proj1.weight", _ingram),
]
"""Name, a parameter that no model below has, and a function that converts the parameters."""
