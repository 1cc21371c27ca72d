"""Modules whose code is sent to the workers, since workers cannot import them.

A program that was loaded from a file exists under its name in this process only. An
engine with other processes sends such code by value.
"""

from __future__ import annotations

from types import ModuleType

_modules: dict[str, ModuleType] = {}


def send_by_value(*modules: ModuleType) -> None:
    """Have the code of modules sent along with every program from now on.

    >>> import types
    >>> send_by_value(types.ModuleType("my_job"))
    >>> [module.__name__ for module in sent_by_value()]
    ['my_job']
    """
    _modules.update({module.__name__: module for module in modules})


def sent_by_value() -> tuple[ModuleType, ...]:
    """Return the modules whose code is sent along."""
    return tuple(_modules.values())
