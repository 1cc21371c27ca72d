"""Packages that only some programs need: imported when they are first asked for."""

from __future__ import annotations

import importlib
from types import ModuleType

from anabranch.errors import EngineError


def require(module: str, extra: str) -> ModuleType:
    """Return a module, or say how to install it.

    >>> require("json", "json").dumps(1)
    '1'
    >>> require("no_such_module", "kafka")
    Traceback (most recent call last):
    anabranch.errors.EngineError: this needs the module no_such_module; it is not installed; say pip install 'anabranch[kafka]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        msg = (
            f"this needs the module {module}; it is not installed; "
            f"say pip install 'anabranch[{extra}]'"
        )
        raise EngineError(msg) from error
