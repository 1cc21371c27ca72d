"""Ships a job to the workers: its specification, and where its modules are found.

A module of the user's that lies beside the script can be imported by the driver, since
Python put the script's directory on the path. Workers get the same path first. What
only the driver runs (a sink that calls a function of the user's, an operator with
effects, the items of a list) stays here: it may hold on to open files and connections.
"""

from __future__ import annotations

import contextlib
import copy
import os
import sys
from dataclasses import replace
from typing import Any

from pyspark import cloudpickle

from anabranch.engines.modules import sent_by_value
from anabranch.engines.spark.layout import Layout
from anabranch.engines.spark.spec import Spec
from anabranch.errors import EngineError
from anabranch.graph.graph import Graph
from anabranch.graph.kinds import Kind
from anabranch.graph.sinks import ToList
from anabranch.graph.sources import FromIterable, Generate


def packed(spec: Spec) -> bytes:
    """Return a specification as bytes for the workers."""
    for module in sent_by_value():
        cloudpickle.register_pickle_by_value(module)
    path = [os.path.abspath(entry) for entry in sys.path]  # noqa: PTH100 - may not exist
    layout = _for_workers(spec.layout)
    try:
        data = cloudpickle.dumps(replace(spec, layout=layout))
    except Exception as error:
        raise _cannot_travel(layout, error) from error
    return cloudpickle.dumps((path, os.getcwd(), data))  # type: ignore[no-any-return]  # noqa: PTH109


def unpacked(data: bytes) -> Any:
    """Make this process find what the driver finds; return the specification."""
    path, directory, spec = cloudpickle.loads(data)
    sys.path += [entry for entry in path if entry not in sys.path]
    with contextlib.suppress(OSError):  # another host need not have it
        os.chdir(directory)  # relative paths are meant from there
    return cloudpickle.loads(spec)


def travels(value: Any) -> bool:
    """Tell whether a value can be sent to the workers.

    >>> import threading
    >>> travels(lambda: iter("ab")), travels(threading.Lock())
    (True, False)
    """
    try:
        cloudpickle.dumps(value)
    except Exception:  # noqa: BLE001 - whatever objects of the user's raise
        return False
    return True


def _for_workers(layout: Layout) -> Layout:
    """Return the layout without what no worker ever calls or reads."""
    ops = []
    for op in layout.graph:
        unit = layout.unit_of.get(op.name)
        here = unit is None or unit.in_driver
        if isinstance(op.kind, Generate):
            here = here or not travels(op.kind.factory)
        left_out: list[Any] = []
        if here:
            left_out += [code.function for code in op.kind.user_code]
        if isinstance(op.kind, FromIterable | ToList):
            left_out.append(op.kind.items)
        ops.append(replace(op, kind=_without(op.kind, left_out)) if left_out else op)
    return replace(layout, graph=Graph(tuple(ops)))


def _without(kind: Kind, left_out: list[Any]) -> Kind:
    made = copy.copy(kind)
    for name, value in vars(kind).items():
        if any(value is one for one in left_out):
            object.__setattr__(made, name, _stays_in_driver)
    return made


def _stays_in_driver(*_: Any) -> Any:
    msg = "this runs in the driver, not in a worker"
    raise AssertionError(msg)


def _cannot_travel(layout: Layout, error: Exception) -> EngineError:
    """Return the error that names the operator which holds on to something."""
    for op in layout.graph:
        try:
            cloudpickle.dumps(op.kind)
        except Exception as found:  # noqa: BLE001 - whatever user objects raise
            return EngineError(
                f"{op.site}: {op.name} must be able to travel to the workers, with all "
                f"that its functions hold on to; {found}; make it inside the function, "
                f"or in `setup()` of an Operator"
            )
    return EngineError(f"the program must be able to travel to the workers; {error}")
