"""A simulated GPU: tensors that claim to be on another device, with their values kept on the CPU.

Inside `other_device()`, `tensor.to(DEVICE)` gives such a tensor. Operations on it compute on the CPU but fail like on a
GPU: operations that mix devices raise an error, and so does `.numpy()` without a preceding `.cpu()`.
The device is called "meta", which every build of torch knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = "meta"
_ATEN = torch.ops.aten
_COPIES = (_ATEN.copy_.default, _ATEN._to_copy.default)
_INDEXED = (_ATEN.index.Tensor, _ATEN.index_put.default, _ATEN.index_put_.default, _ATEN._index_put_impl_.default)
"""Operations that take indices from the CPU for a tensor of any device."""


class _Elsewhere(Tensor):
    """A tensor on the other device; `held` has its values."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> _Elsewhere:
        made: _Elsewhere = Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device(DEVICE),
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return _run(function, args, kwargs or {})

    def tolist(self) -> Any:
        return self.held.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("a tensor on another device cannot become a NumPy array; call .cpu() first")


class _Dispatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Intercepts functions that create new tensors on the other device."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {})


class _Functions(TorchFunctionMode):
    """Converts Python lists on the CPU: torch would create tensors without values on "meta"."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if function in (Tensor.__getitem__, Tensor.__setitem__) and isinstance(args[0], _Elsewhere):
            args = (args[0], _as_index(args[1]), *args[2:])
        if function in (torch.tensor, torch.as_tensor) and _named(kwargs.get("device")):
            return function(*args, **(kwargs | {"device": "cpu"})).to(DEVICE)
        if function is Tensor.new_tensor and isinstance(args[0], _Elsewhere):
            return torch.tensor(args[1], dtype=kwargs.get("dtype", args[0].dtype)).to(DEVICE)
        return function(*args, **kwargs)


@contextmanager
def other_device() -> Iterator[str]:
    """Make DEVICE usable."""
    with _Functions(), _Dispatch():  # type: ignore[no-untyped-call]
        yield DEVICE


def _run(function: Any, args: Any, kwargs: Any) -> Any:
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    there = any(isinstance(tensor, _Elsewhere) for tensor in tensors)
    here = any(tensor.dim() and not isinstance(tensor, _Elsewhere) for tensor in tensors)
    indexes = function in _INDEXED and isinstance(args[0], _Elsewhere)
    if there and here and function not in _COPIES and not indexes:
        raise RuntimeError(f"{function}: expected all tensors to be on the same device")
    to, named = kwargs.get("device"), _named(kwargs.get("device"))
    if named:
        kwargs = {**kwargs, "device": "cpu"}
    result = function(*tree_map(_held, args), **tree_map(_held, kwargs))
    if function is _COPIES[0]:
        return args[0]
    if not named and not (to is None and there):
        return result
    if isinstance(args[0] if args else None, _Elsewhere) and result is args[0].held:
        return args[0]  # changed in place
    return tree_map(lambda value: _Elsewhere(value) if isinstance(value, Tensor) else value, result)


def _held(value: Any) -> Any:
    return value.held if isinstance(value, _Elsewhere) else value


def _named(device: Any) -> bool:
    return device is not None and torch.device(device).type == DEVICE


def _as_index(index: Any) -> Any:
    if isinstance(index, list):
        return torch.tensor(index)
    return tuple(map(_as_index, index)) if isinstance(index, tuple) else index
