"""Ships a job to the workers: its specification, and where its modules are found.

The driver can import a user's module beside the script because Python put the script's
directory on the path. Workers get the same path first. What only the driver runs (a
sink that calls a user's function, an operator with effects, the items of a list) stays
here: it may refer to open files and connections.
"""

from __future__ import annotations

import contextlib
import copy
import io
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, get_args

import cloudpickle

from anabranch.connectors.partitions import has_decoder, has_offsets
from anabranch.epochs.layout import EpochLayout
from anabranch.epochs.task import Spec
from anabranch.epochs.transport.module_contents import ModulePatches, read_contents
from anabranch.epochs.transport.modules import find_modules_by_value, not_importable
from anabranch.epochs.transport.pickle import (
    PickledNames,
    ValuePickler,
    ValueUnpickler,
    scripts,
)
from anabranch.epochs.transport.program_modules import find_used
from anabranch.epochs.transport.stable_names import name_of
from anabranch.errors import EngineError
from anabranch.graph.graph import Graph
from anabranch.graph.kind import Kind
from anabranch.graph.types import fields_of, members_of, remember_fields
from anabranch.operators.sinks import ToList, WriteSink
from anabranch.operators.sources import FromIterable, Generate, ReadSource

_LIGHT_BYTES = 1 << 20  # of a class, with everything its methods refer to


def pack(spec: Spec) -> tuple[bytes, PickledNames]:
    """Return a specification as bytes for the workers, and the names they then know."""
    by_value = (*find_modules_by_value(), *not_importable())
    for module in by_value:
        cloudpickle.register_pickle_by_value(module)
    path = [os.path.abspath(entry) for entry in sys.path]  # noqa: PTH100 - may not exist
    layout = _for_workers(spec.layout)
    graph = layout.graph
    reads = find_used(graph)
    used = reads if by_value else None
    names = PickledNames(reads=reads, used=used)
    contents = read_contents(graph, partial(_write, names), spec.wanted)
    filters = spec.settings.warning_filters
    settings = replace(spec.settings, warning_filters=())
    bare = replace(spec, layout=layout, settings=settings, contents=contents)
    buffer = io.BytesIO()
    writer = _Recorder(buffer, names)
    writer.leave_unchecked(_connectors_of(graph))
    try:
        # Saved in this order: the names are complete after all else has been saved.
        writer.dump((bare, _Fields(writer), _Table(writer)))
    except Exception as error:
        raise _cannot_travel(layout, error, names) from error
    named, reads = writer.named, names.reads
    known = PickledNames(named, reads=reads, used=used)
    more, others = _pack_others(named, known)
    names = PickledNames({**named, **others}, reads=reads, used=used)
    each = [_write(names, one) for one in filters if travels(one)]
    shipped = buffer.getvalue(), more, names.main, each, reads
    return cloudpickle.dumps((path, os.getcwd(), shipped)), names  # noqa: PTH109


def unpack(data: bytes) -> tuple[Spec, PickledNames]:
    """Set up this process's paths as in the driver; return the specification."""
    path, directory, given = cloudpickle.loads(data)
    shipped, more, main, packed_filters, reads = given
    sys.path += [entry for entry in path if entry not in sys.path]
    with contextlib.suppress(OSError):  # another host may not have it
        os.chdir(directory)  # relative paths start there
    spec, _, named = _read(shipped, PickledNames())

    def load_more() -> dict[str, Any]:
        _, found = _read(more, names)
        return found  # type: ignore[no-any-return]

    names = PickledNames(named, load_more, main=main, reads=reads)
    ModulePatches(spec.contents, partial(_read, names=names)).install()
    filters = []
    for one in packed_filters:
        with contextlib.suppress(Exception):  # a warning category unknown here
            filters.append(_read(one, names))
    settings = replace(spec.settings, warning_filters=tuple(filters))
    return replace(spec, settings=settings), names


def travels(value: Any) -> bool:
    """Tell whether a value can be sent to the workers.

    >>> import threading
    >>> travels(lambda: iter("ab")), travels(threading.Lock())
    (True, False)
    """
    try:
        ValuePickler(io.BytesIO(), PickledNames(), checked=False).dump(value)
    except Exception:  # noqa: BLE001 - whatever objects of the user's raise
        return False
    return True


def _write(names: PickledNames, value: Any, most: int | None = None) -> bytes:
    """Return a value as bytes; raise if there are more than so many."""
    buffer = io.BytesIO() if most is None else _Limited(most)
    ValuePickler(buffer, names).dump(value)
    return buffer.getvalue()


def _read(data: bytes, names: PickledNames) -> Any:
    return ValueUnpickler(io.BytesIO(data), names).load()


class _Recorder(ValuePickler):
    """Records the classes and functions that it sends by value."""

    def __init__(self, file: Any, names: PickledNames) -> None:
        super().__init__(file, names)
        self._sent: dict[str, list[Any]] = {}

    def reduce_code(self, value: Any) -> Any:
        reduced = super().reduce_code(value)
        known = name_of(value) or self._names.name_of(value)
        if reduced is not NotImplemented and known is None:
            name = self._names.name_in_full(value)
            if name is not None:
                same = self._sent.setdefault(name, [])
                if not any(value is one for one in same):
                    same.append(value)
        return reduced

    @property
    def named(self) -> dict[str, Any]:
        """What was sent by value so far and has a unique name."""
        return {name: same[0] for name, same in self._sent.items() if len(same) == 1}


class _Table:
    """Stands for a recorder's table at the time it is pickled."""

    def __init__(self, recorder: _Recorder) -> None:
        self._recorder = recorder

    def __reduce__(self) -> Any:
        return dict, (self._recorder.named,)


class _Fields(_Table):
    """Stands for the attributes of the classes that a recorder has recorded.

    Annotations may be text that refers to a module a worker does not have.
    """

    def __reduce__(self) -> Any:
        classes = [one for one in self._recorder.named.values() if _has_fields(one)]
        found: dict[type, dict[str, Any]] = {}
        while classes:
            one = classes.pop()
            if one not in found:
                found[one] = dict(fields_of(one) or members_of(one) or {})
                inside = chain.from_iterable(map(_classes_in, found[one].values()))
                classes += filter(_has_fields, inside)
        return _remember, (list(found.items()),)


def _remember(fields: list[tuple[type, dict[str, Any]]]) -> None:
    for tuple_type, own in fields:
        remember_fields(tuple_type, own)


def _has_fields(value: Any) -> bool:
    if not isinstance(value, type):
        return False
    return fields_of(value) is not None or members_of(value) is not None


def _classes_in(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        yield from _classes_in(part)


def _pack_others(
    named: dict[str, Any], names: PickledNames
) -> tuple[bytes, dict[str, Any]]:
    """Pack the classes of scripts that the program does not mention; items may be
    theirs.

    Workers read them on first use. One that cannot be pickled, or is too large, is left
    out; its instances are then sent with their class.
    """
    known = {id(value) for value in named.values()}
    others = [
        value
        for module in scripts()
        for value in list(vars(module).values())
        if isinstance(value, type)
        and id(value) not in known
        and names.own_name(value) is not None
        and _is_light(value, names)
    ]
    buffer = io.BytesIO()
    writer = _Recorder(buffer, names)
    writer.dump((others, _Table(writer)))
    return buffer.getvalue(), writer.named


def _is_light(value: type, names: PickledNames) -> bool:
    try:
        _write(names, value, _LIGHT_BYTES)
    except Exception:  # noqa: BLE001 - whatever objects of the user's raise
        return False
    return True


class _Limited(io.BytesIO):
    """A file that accepts no more than so many bytes."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self._most:
            msg = "too much"
            raise OverflowError(msg)
        return super().write(data)


def _for_workers(layout: EpochLayout) -> EpochLayout:
    """Return the layout without what no worker calls or reads."""
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
        if isinstance(op.kind, ReadSource) and not _is_read_by_workers(op.kind):
            left_out.append(op.kind.source)
        ops.append(replace(op, kind=_without(op.kind, left_out)) if left_out else op)
    return replace(layout, graph=Graph(tuple(ops)))


def _is_read_by_workers(kind: ReadSource) -> bool:
    """Tell whether workers read the rows of a source, or decode them."""
    source = kind.source
    read = not source.live or has_offsets(source) or has_decoder(source)
    return read and travels(source)


def _without(kind: Kind, left_out: list[Any]) -> Kind:
    made = copy.copy(kind)
    for name, value in vars(kind).items():
        if any(value is one for one in left_out):
            object.__setattr__(made, name, _stays_in_driver)
    return made


def _stays_in_driver(*_: Any) -> Any:
    msg = "this runs in the driver, not in a worker"
    raise AssertionError(msg)


def _connectors_of(graph: Graph) -> Iterator[Any]:
    """Yield the sources and sinks that open what they need wherever they arrive."""
    for op in graph:
        if isinstance(op.kind, ReadSource):
            yield op.kind.source
        elif isinstance(op.kind, WriteSink):
            yield op.kind.sink


def _cannot_travel(
    layout: EpochLayout, error: Exception, names: PickledNames
) -> EngineError:
    """Return the error that names the operator which cannot be pickled."""
    for op in layout.graph:
        try:
            writer = ValuePickler(io.BytesIO(), names)
            writer.leave_unchecked(_connectors_of(layout.graph))
            writer.dump(op.kind)
        except Exception as found:  # noqa: BLE001 - whatever user objects raise
            return EngineError(
                f"{op.site}: {op.name} must be able to travel to the workers, with all "
                f"that its functions hold on to; {found}; make it inside the function, "
                f"or in `setup()` of an Operator"
            )
    return EngineError(f"the program must be able to travel to the workers; {error}")
