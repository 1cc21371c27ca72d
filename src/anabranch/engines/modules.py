"""Modules whose code is sent to the workers, since workers cannot import them.

A program that was loaded from a file exists under its name in this process only. An
engine with other processes sends such code by value.
"""

from __future__ import annotations

import sys
from types import ModuleType

_modules: dict[str, ModuleType] = {}


def send_by_value(*modules: ModuleType) -> None:
    """Have the code of modules sent along with every program from now on.

    >>> import sys, types
    >>> my_job = sys.modules["my_job"] = types.ModuleType("my_job")
    >>> send_by_value(my_job)
    >>> my_job in sent_by_value()
    True
    >>> del sys.modules["my_job"]
    >>> my_job in sent_by_value()
    False
    """
    _modules.update({module.__name__: module for module in modules})


def sent_by_value() -> tuple[ModuleType, ...]:
    """Return the modules whose code is sent along, as far as they are still loaded."""
    return tuple(
        module for name, module in _modules.items() if sys.modules.get(name) is module
    )
