"""Damaged files of weights end in one kind of error, whatever is wrong with them."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from anykg.errors import CheckpointError
from anykg.models.nbf.published import import_ultra_weights
from anykg.models.nbf.ultra import Ultra, UltraConfig
from anykg.models.published import import_weights

MUTATIONS = 150


def published(path: Path, zipped: bool) -> bytes:
    """A small Ultra under its published names."""
    model = Ultra(UltraConfig(width=4, relation_layers=1, entity_layers=1))
    theirs = {}
    for ours, tensor in model.state_dict().items():
        name = ours.replace("_network", "_model").replace(".norm.", ".layer_norm.")
        name = name.replace("entity_model.relations.0", "entity_model.layers.0.relation_projection")
        name = name.replace("entity_model.hidden", "entity_model.mlp.0").replace(
            "entity_model.last", "entity_model.mlp.2"
        )
        theirs[name] = tensor
    theirs["relation_model.layers.0.relation.weight"] = theirs.pop("relation_model.types")[0]
    assert set(import_ultra_weights(theirs)[1]) == set(model.state_dict())
    torch.save({"model": theirs}, path, _use_new_zipfile_serialization=zipped)
    return path.read_bytes()


def mutated(content: bytes, random: np.random.Generator) -> bytes:
    data = bytearray(content)
    kind, at = random.integers(5), int(random.integers(len(data)))
    if kind == 0:
        return bytes(data[:at])
    if kind == 1:
        data[at : at + int(random.integers(1, 40))] = b""
    elif kind == 2:
        data[at:at] = random.bytes(int(random.integers(1, 40)))
    else:
        for position in random.integers(
            len(data) if kind == 3 else min(3000, len(data)), size=int(random.integers(1, 6))
        ):
            data[position] = random.integers(256)
    return bytes(data)


@pytest.mark.parametrize("zipped", [True, False])
def test_mutated_files_are_imported_or_refused(zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    content = published(path, zipped)
    assert import_weights(path)[0] == "ultra"
    random, refused = np.random.default_rng(0), []
    for _ in range(MUTATIONS):
        path.write_bytes(mutated(content, random))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                import_weights(path)
        except CheckpointError as error:
            refused.append(str(error))
    assert len(refused) > MUTATIONS / 3
    assert all("\n" not in message and message.startswith(str(path)) for message in refused)


@pytest.mark.parametrize("content", [{"model": 3}, {3: torch.zeros(2)}, [1, 2], {"model": {"x": torch.zeros(1)}}])
def test_other_content_is_refused(content: object, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "weights.pth")
    with pytest.raises(CheckpointError, match="expected"):
        import_weights(tmp_path / "weights.pth")
    with pytest.raises(CheckpointError):
        import_weights(tmp_path)  # a folder
    with pytest.raises(CheckpointError):
        import_weights(tmp_path / "nothing.pth")


def test_parameters_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    published(tmp_path / "weights.pth", zipped=True)
    content = torch.load(tmp_path / "weights.pth", weights_only=True)
    content["model"]["entity_model.mlp.0.bias"][0] = torch.nan
    torch.save(content, tmp_path / "weights.pth")
    with pytest.raises(CheckpointError, match="finite"):
        import_weights(tmp_path / "weights.pth")
