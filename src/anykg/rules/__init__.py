"""Rules over any entities and relations: parsing, matching, mining and applying them.

`anykg.rules(graph)` mines the rules of a graph: the package is callable, because it shares its name with that verb of
the public API (see `anykg.answers.rules`).
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        return import_module("anykg.answers.rules").rules(*arguments, **settings)


sys.modules[__name__].__class__ = _Callable
