"""Tell the user when numba compiles kernels, which happens once per installation.

numba is only imported by the modules with kernels. `announce` does not import it, but waits until something else does.
Compiled kernels are loaded from numba's cache: `__pycache__` next to the source or, if that is not writable, the user's
cache (or NUMBA_CACHE_DIR). `announce` also makes loading them faster.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

SECONDS = {"anykg.models.nbf": 10, "anykg.rules": 20, "anykg.models.isdea": 20, "anykg.models.ingram": 20}
"""Approximate compile times of packages in seconds; the others take a few seconds."""
A_FEW = 5


class Compiled:
    """The packages compiled so far in this process."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self.kernels = 0
        self.seconds = 0.0
        self._packages: set[str] = set()
        self._depth = 0
        self._since = 0.0

    def start(self, module: str) -> None:
        """Handle the start of a compilation, possibly on behalf of a kernel that calls this one."""
        self._depth += 1
        if self._depth > 1:
            return
        self._since = time.perf_counter()
        package = next((known for known in SECONDS if module.startswith(f"{known}.")), module)
        if package not in self._packages:
            self._packages.add(package)
            seconds = SECONDS.get(package, A_FEW)
            self.tell(
                f"Compiling kernels of {package} for the first time, up to {seconds} s; `anykg warm-up` compiles all "
                "of them in advance."
            )

    def end(self) -> None:
        """Handle the end of a compilation."""
        self._depth -= 1
        if self._depth == 0:
            self.kernels += 1
            self.seconds += time.perf_counter() - self._since


def announce(tell: Callable[[str], None]) -> Compiled:
    """Announce when kernels of a package are compiled for the first time, with an estimate of the time.

    For the command line: it changes how numba loads all kernels of this process.
    """
    compiled = Compiled(tell)

    def set_up() -> None:
        _listen(compiled)
        _load_without_compiler()

    if "numba" in sys.modules:
        set_up()
    else:
        sys.meta_path.insert(0, _AfterImport("numba", set_up))
    return compiled


def _listen(compiled: Compiled) -> None:
    from numba.core import event

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            compiled.start(event.data["dispatcher"].py_func.__module__)

        def on_end(self, event: Any) -> None:
            compiled.end()

    event.register("numba:compile", Listener())


def _load_without_compiler() -> None:
    """Load cached kernels without preparing numba's compiler, which takes 0.3 s to import scipy and all of numba.

    numba still prepares its compiler whenever it compiles. Cached code only needs the runtime that allocates arrays.
    This has no effect in versions of numba without the names used here.
    """
    try:
        from numba.core.caching import Cache
        from numba.core.runtime import rtsys

        guard, load = Cache._guard_against_spurious_io_errors, Cache._load_overload
    except (ImportError, AttributeError):
        return

    def load_overload(self: Any, signature: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        with guard(self):
            return load(self, signature, target_context)

    Cache.load_overload = load_overload


class _AfterImport(MetaPathFinder):
    """Calls a function after a module was imported for the first time."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self.name, self.then = name, then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the module as usual, and make it call `then` after its execution."""
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self.then()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
