"""Data-parallel training with processes started by `torchrun`: each computes a share of every batch.

Every worker draws the same batches from equal generators and has the same weights. Gradients are summed before each
step, so the losses are those of one process with the same batch. Only the first worker validates and writes files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, distributed

from anykg.errors import Interrupted


class WorkerLost(Interrupted):
    """Another process of the run has failed."""


class Workers(NamedTuple):
    """The rank of this process and the number of processes."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process validates and writes files."""
        return self.rank == 0

    def shares(self, count: int, pieces: int) -> list[slice]:
        """The rows out of `count` that this worker computes, in `pieces` non-empty parts."""
        total = self.size * pieces
        mine = range(self.rank * pieces, (self.rank + 1) * pieces)
        bounds = [slice(count * part // total, count * (part + 1) // total) for part in mine]
        return [part for part in bounds if part.stop > part.start]

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all workers."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        try:
            distributed.all_reduce(flat)
        except RuntimeError as error:  # the connection to the others is lost
            raise WorkerLost("Another training process has failed.") from error
        for tensor, part in zip(tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def broadcast(self, value: float | None) -> float | None:
        """Broadcast a value from the first worker."""
        if self.size == 1:
            return value
        values = [value]
        try:
            distributed.broadcast_object_list(values, src=0)
        except RuntimeError as error:
            raise WorkerLost("Another training process has failed.") from error
        return values[0]


ALONE = Workers()
"""One process."""


@contextmanager
def joined_workers(device: torch.device) -> Iterator[tuple[Workers, torch.device]]:
    """Join the process group of `torchrun`, if there is one, and choose this process's own device of the given kind.

    The group is left at the end, because a process that exits while the group's threads are running may be aborted by
    the C++ runtime.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Workers(), device
        return
    if str(device) == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Workers(distributed.get_rank(), size), device
    finally:
        distributed.destroy_process_group()
