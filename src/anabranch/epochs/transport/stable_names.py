"""Stable names of our own classes and functions in checkpoints.

A checkpoint outlives the release that wrote it, and modules move between releases. So
our objects are never pickled by module: they have names in the table of this file,
which never change. The user's classes keep their own names.

A function that rebuilds objects is a global of the module `MODULE`, which has no file;
a class is `find(NAME)`, with `find` from that module. Formats 2 and 3 named modules;
`OLD_NAMES` lists those that may occur in them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

from anabranch import errors
from anabranch.graph.site import Site
from anabranch.operators import windows
from anabranch.operators.clock import Advance
from anabranch.operators.custom import Operator
from anabranch.operators.window_parts import WindowPart
from anabranch.runtime.failures import Failure

MODULE = "anabranch.<checkpoint>"  # no file can have that name
_PACKAGE = "anabranch"
_Function = TypeVar("_Function", bound=Callable[..., Any])

_functions = ModuleType(MODULE)
sys.modules[MODULE] = _functions  # `pickle` looks there for what it writes

OBJECTS: dict[str, Any] = {
    "Advance": Advance,
    "Failure": Failure,
    "Operator": Operator,
    "Site": Site,
    "WindowPart": WindowPart,
    "row": windows.make_row,
    "AnabranchError": errors.AnabranchError,
    "ArgumentError": errors.ArgumentError,
    "CheckpointError": errors.CheckpointError,
    "DashboardError": errors.DashboardError,
    "EngineError": errors.EngineError,
    "Fault": errors.Fault,
    "FencedError": errors.FencedError,
    "GraphError": errors.GraphError,
    "InputError": errors.InputError,
    "LateItemError": errors.LateItemError,
    "LoopError": errors.LoopError,
    "OperatorError": errors.OperatorError,
    "OutputError": errors.OutputError,
    "PlanError": errors.PlanError,
    "RefutedError": errors.RefutedError,
}
_NAMES = {id(value): name for name, value in OBJECTS.items()}

# Module and name in formats 2 and 3 -> name. The modules have moved since.
OLD_NAMES = {
    ("engines.spark.pickling", "_class_numbered"): "type",
    ("engines.spark.pickling", "_named"): "named",
    ("engines.spark.pickling", "_original"): "original",
    ("engines.spark.pickling", "_fill_original"): "fill_original",
    ("engines.spark.pickling", "_tuple_of"): "tuple",
    ("engines.spark.pickling", "_object_of"): "object",
    ("engines.spark.pickling", "_member_of"): "member",
    ("engines.spark.pickling", "_exception_of"): "exception",
    ("engines.spark.pickling", "_cached_of"): "cached",
    ("graph.windows", "_row"): "row",
    ("graph.custom", "Operator"): "Operator",
    ("graph.site", "Site"): "Site",
    ("runtime.failures", "Failure"): "Failure",
    **{("errors", name): name for name in OBJECTS if hasattr(errors, name)},
}


def name_function(name: str) -> Callable[[_Function], _Function]:
    """Register a function that rebuilds objects under its stable name."""

    def give(function: _Function) -> _Function:
        function.__module__ = MODULE
        function.__qualname__ = name
        setattr(_functions, name, function)
        return function

    return give


@name_function("find")
def find(name: str) -> Any:
    """Return our object with a stable name.

    >>> find("Site")("job.py", 7)
    Site(file='job.py', line=7)
    """
    return OBJECTS[name]


def find_function(name: str) -> Any:
    """Return the rebuilding function with a stable name.

    >>> find_function("find") is find
    True
    """
    return getattr(_functions, name)


def name_of(value: Any) -> str | None:
    """Return the stable name of our class or function; None if it has none.

    >>> name_of(Site), name_of(Operator), name_of(int)
    ('Site', 'Operator', None)
    """
    return _NAMES.get(id(value))


def old_name(module: str, name: str) -> str | None:
    """Return the stable name for a module name of formats 2 and 3.

    >>> old_name("anabranch.errors", "InputError"), old_name("json", "loads")
    ('InputError', None)
    """
    package, _, rest = module.partition(".")
    return OLD_NAMES.get((rest, name)) if package == _PACKAGE else None


def is_ours(value: Any) -> bool:
    """Tell whether a class or function is defined in this package.

    >>> is_ours(Site), is_ours(find), is_ours(int)
    (True, False, False)
    """
    module = getattr(value, "__module__", None)
    if not isinstance(module, str) or module == MODULE:
        return False
    return module.partition(".")[0] == _PACKAGE
