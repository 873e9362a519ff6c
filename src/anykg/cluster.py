"""Run tasks on the machines of a Ray cluster.

Ray distributes tasks and restarts those whose worker was lost. A task is a module-level function and its arguments; it
must give the same result when it runs twice. Each machine receives a file once: by a path that it can read, or through
Ray's object store into a file of its own.

Ray is only imported when a cluster is used; install it with `pip install 'anykg[cluster]'`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from anykg.atomic import atomic_path
from anykg.errors import DataError, InputError, SettingError

RETRIES = 5
"""Number of times that a task is restarted after losing its worker."""
BLOCK = 64 << 20
"""Size in bytes of the chunks in which a file is sent."""


class Done(NamedTuple):
    """A task that has ended."""

    arguments: tuple[Any, ...]
    result: Any
    lost: bool = False
    """Whether its worker was lost too often to restart it; there is no result then."""


class Cluster:
    """A connection to a Ray cluster; `connected` opens and closes it.

    Args:
        address: "auto", HOST:PORT, or "local" for all cores of this machine. If this process is connected to Ray
            already, that connection is used.
        threads: Number of threads of a task, and of CPUs that Ray reserves for it.
    """

    def __init__(self, address: str, threads: int = 1) -> None:
        self.ray = _imported()
        self.ours = not self.ray.is_initialized()
        if self.ours:
            try:
                self.ray.init(
                    address=address, log_to_driver=False, include_dashboard=False, logging_level=logging.WARNING
                )
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise SettingError("cluster", f"cannot reach a Ray cluster at {address!r} ({error})") from error
        nodes = [int(node["Resources"].get("CPU", 0)) for node in self.ray.nodes() if node["Alive"]]
        most = max(nodes, default=0)
        if not most:
            self.close()
            raise SettingError("cluster", f"the Ray cluster at {address!r} has no CPUs; add a node to it")
        self.threads = min(threads, most)
        self.slots = sum(cpus // self.threads for cpus in nodes)
        """Tasks that run at the same time."""

    def close(self) -> None:
        """Leave the cluster, unless this process was connected before."""
        if self.ours:
            self.ray.shutdown()

    def put(self, value: Any) -> Any:
        """Put a value into the object store; a task that gets the reference as an argument receives the value."""
        return self.ray.put(value)

    def completed(
        self,
        function: Callable[..., Any],
        tasks: Iterable[tuple[Any, ...]],
        *,
        queued: int = 0,
        hold: Callable[[], bool] = lambda: False,
    ) -> Iterator[Done]:
        """Call function(*task) for every task on the cluster; yields them as they end.

        Tasks are taken from the iterator when they can run, with `queued` more waiting at the workers, and none while
        `hold()` is true.
        """
        remote = self.ray.remote(max_retries=RETRIES, num_cpus=self.threads)(function)
        waiting = iter(tasks)
        running: dict[Any, tuple[Any, ...]] = {}
        more = True
        while more or running:
            while more and len(running) < self.slots + queued and not (running and hold()):
                task = next(waiting, None)
                if task is None:
                    more = False
                else:
                    running[remote.remote(*task)] = task
            if running:
                (done,), _ = self.ray.wait(list(running), num_returns=1)
                yield self._done(done, running.pop(done))

    def _done(self, reference: Any, task: tuple[Any, ...]) -> Done:
        errors = self.ray.exceptions
        try:
            return Done(task, self.ray.get(reference))
        except (errors.WorkerCrashedError, errors.OutOfMemoryError, errors.NodeDiedError):
            return Done(task, None, lost=True)
        except errors.RayTaskError as error:  # its message is the traceback of the worker
            if isinstance(error.cause, InputError):
                raise error.cause from None
            raise

    def share(self, path: Path, name: str, usable: Callable[[Path], bool]) -> SharedFile:
        """Make a file available on every machine.

        Args:
            path: The file on this machine.
            name: Its name on machines that cannot read the path; equal names have equal contents.
            usable: A module-level function that tests whether the file at a path is the right one.
        """
        path = path.resolve()
        shared = SharedFile(str(path), name, usable)
        strategy = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        look = self.ray.remote(num_cpus=0, max_retries=RETRIES)(_is_there)
        nodes = [node["NodeID"] for node in self.ray.nodes() if node["Alive"]]
        visible = [look.options(scheduling_strategy=strategy(node, soft=True)).remote(shared) for node in nodes]
        if all(self.ray.get(visible)):
            return shared
        checksum = blake2b(digest_size=16)
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                checksum.update(block)
                shared.blocks.append(self.ray.put(block))
        shared.checksum = checksum.hexdigest()
        return shared


@dataclass
class SharedFile:
    """A file that tasks read."""

    path: str
    name: str
    usable: Callable[[Path], bool]
    blocks: list[Any] = field(default_factory=list)
    """References to its content in the object store, if a machine cannot read the path."""
    checksum: str = ""

    def here(self) -> Path:
        """The file on this machine; fetches it if no task has before."""
        path = self._present()
        if path is not None:
            return path
        if not self.blocks:
            raise DataError(f"{self.path}: this machine of the cluster cannot read the file; run the command again.")
        from filelock import FileLock

        own = self._own()
        own.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(f"{own}.lock"):
            if not (own.is_file() and self.usable(own)):
                self._fetch(own)
        return own

    def _present(self) -> Path | None:
        return next((path for path in (Path(self.path), self._own()) if path.is_file() and self.usable(path)), None)

    def _own(self) -> Path:
        from platformdirs import user_cache_path

        return Path(user_cache_path("anykg")) / "cluster" / self.name

    def _fetch(self, own: Path) -> None:
        ray, checksum = _imported(), blake2b(digest_size=16)
        with atomic_path(own) as temporary, temporary.open("wb") as file:
            for reference in self.blocks:
                block = ray.get(reference)
                checksum.update(block)
                file.write(block)
            if checksum.hexdigest() != self.checksum:
                raise DataError(f"{self.path}: the copy that reached {own} is damaged; run the command again.")


@contextmanager
def connected(cluster: Cluster | str | None, threads: int | None = None) -> Iterator[Cluster | None]:
    """A connection to the cluster at an address, closed at the end; an existing connection stays open.

    Without `threads`, a task uses as many as torch does on this machine, because sums are rounded differently with
    another number.
    """
    if cluster is None or isinstance(cluster, Cluster):
        yield cluster
        return
    if threads is None:
        import torch

        threads = torch.get_num_threads()
    connection = Cluster(cluster, threads)
    try:
        yield connection
    finally:
        connection.close()


def _is_there(shared: SharedFile) -> bool:
    return shared._present() is not None


def _imported() -> Any:
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise SettingError(
            "cluster", "needs Ray, which is not installed; run `pip install 'anykg[cluster]'`"
        ) from error
    return ray
