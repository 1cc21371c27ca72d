"""Pickling between processes: by name, by value, and back as the same objects.

A class from the user's script does not exist under its name in a worker, so plain
pickles of its instances would not load there. Everything sent between processes (items,
states, reports, dead letters, the program itself) is pickled here:

- A class that the program names as a type is pickled by its number in the program.
- A class or function that was shipped with the program is pickled by its name, and found
  under that name on the other side. So each process has one class object, and a state of
  an earlier run is an instance of the class of this run. Names do not depend on how the
  script was started: `__main__` is named after its file, as `anabranch run FILE` names it.
- Any other class or function that workers cannot import is pickled by value.
- An object of the driver that equals itself alone, since its class has no `__eq__`, comes
  back as itself. A program that compares such items runs as one thread, without copies;
  but what a sink collects may be compared after the run. So the driver gives each such
  object a number as it leaves, the workers pass the number on, and the driver takes its own
  object when it returns. A copy that was changed on the way, by a function that is declared to be
  stateless, is an object of its own from then on: workers keep a digest of what came in.

A value in a checkpoint names nothing of ours by its module: see `stable_names`.
"""

from __future__ import annotations

import contextlib
import copyreg
import enum
import functools
import hashlib
import importlib
import io
import pickle
import struct
import sys
import typing
import uuid
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import starmap
from pathlib import Path
from types import (
    CellType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any, Final, TypeAlias

import cloudpickle
import numpy as np
from cloudpickle import cloudpickle as internals

from anabranch.epochs.transport.array_layout import reduce_array
from anabranch.epochs.transport.caches import CACHE, make_cache, reduce_cache
from anabranch.epochs.transport.enums import VALUES, fill_enum, make_enum, reduce_enum
from anabranch.epochs.transport.losses import (
    Comparison,
    attributes_of,
    find_hook,
    find_library_hook,
)
from anabranch.epochs.transport.modules import find_modules_by_value, not_importable
from anabranch.epochs.transport.program_modules import Reads
from anabranch.epochs.transport.shared_memory import (
    VIEWS,
    SharedMemory,
    find_shared_memory,
    reduce_view,
)
from anabranch.epochs.transport.stable_names import (
    MODULE,
    OBJECTS,
    find,
    find_function,
    is_ours,
    name_function,
    name_of,
    old_name,
)
from anabranch.errors import CheckpointError, EngineError
from anabranch.graph.graph import Graph
from anabranch.graph.types import fields_of
from anabranch.operators.custom import Apply, Operator
from anabranch.operators.iterate import Iterate
from anabranch.runtime.state import PLAIN_TYPES, HeldColumn, HeldItems

Token: TypeAlias = tuple[str, int]  # driver, and number there


class Originals:
    """The objects that left the driver, by token; `owner` is "" in workers.

    >>> class City: ...
    >>> rome, driver, worker = City(), Originals("driver"), Originals("")
    >>> token = driver.token_of(rome)
    >>> copy = City()
    >>> worker.token_of(copy) is None
    True
    >>> worker.take(copy, token, b"as it came")
    >>> worker.token_of(copy) == token, driver.find(token) is rome
    (True, True)
    >>> worker.is_changed(copy, b"as it is")
    True
    """

    def __init__(self, owner: str = "") -> None:
        self._owner = owner
        self._objects: weakref.WeakValueDictionary[Token, Any] = (
            weakref.WeakValueDictionary()
        )
        self._tokens: dict[int, tuple[weakref.ref[Any], Token, bytes | None]] = {}
        self._next = 0

    @classmethod
    def of_driver(cls) -> Originals:
        """Return an empty table for the objects of this process."""
        return cls(uuid.uuid4().hex)

    def token_of(self, value: Any) -> Token | None:
        """Return the token of an object; in a worker, None if it was made there."""
        known = self._tokens.get(id(value))
        if known is not None:
            return known[1]
        if not self._owner:
            return None
        self._next += 1
        token = self._owner, self._next
        self.take(value, token, None)
        self._objects[token] = value
        return token

    def is_changed(self, value: Any, digest: bytes) -> bool:
        """Tell whether a copy has changed since it arrived."""
        known = self._tokens.get(id(value))
        return known is None or known[2] != digest

    @property
    def are_here(self) -> bool:
        """Whether this process owns the objects, not copies."""
        return bool(self._owner)

    def take(self, value: Any, token: Token, digest: bytes | None) -> None:
        """Record the token of an object and a digest of its contents while it lives."""
        identity, tokens = id(value), self._tokens

        def forget(_: Any) -> None:
            tokens.pop(identity, None)

        tokens[identity] = weakref.ref(value, forget), token, digest

    def find(self, token: Token) -> Any | None:
        """Return the object of a token; None if it belongs to another process, or is
        gone.
        """
        return self._objects.get(token)


def is_identified(kind: type) -> bool:
    """Tell whether objects of a class have only identity equality and can be tracked.

    >>> class City: ...
    >>> is_identified(City), is_identified(tuple), is_identified(object)
    (True, False, False)
    """
    own: Any = kind.__eq__
    follows = kind.__weakrefoffset__ != 0
    return follows and own is object.__eq__ and _is_made_of_attributes(kind)


def _is_made_of_attributes(kind: type) -> bool:
    """Tell whether a class is written in Python down to `object`."""
    return all(base is object or base.__flags__ & (1 << 9) for base in kind.__mro__)


MAIN = "__main__"
PROGRAM = "_program"  # suffix of a program file's module name if the plain one is taken


class PickledNames:
    """Maps names to objects and objects to names.

    `named` are known from the start; `load_more` reads the rest when one is missing.
    With `own`, every object of a script of this process has a name, for pickles that
    only the driver reads. `main` is the name of the driver's `__main__`; `reads` are the
    names of the attributes that the program may read, None for any; of a module that is
    sent by value the variables travel that are `used`.

    >>> class City: ...
    >>> names = PickledNames({"job:City": City})
    >>> names.name_of(City), names.find("job:City") is City
    ('job:City', True)
    """

    def __init__(
        self,
        named: Mapping[str, Any] | None = None,
        load_more: Callable[[], Mapping[str, Any]] | None = None,
        *,
        own: bool = False,
        main: str | None = None,
        reads: Reads = None,
        used: Reads = None,
    ) -> None:
        self._objects: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self._load_more = load_more
        self._own = own
        self.main = name_of_main() if main is None else main
        self.reads = reads
        self.used = used
        self.add({} if named is None else named)

    def add(self, named: Mapping[str, Any]) -> None:
        """Give objects their names."""
        self._objects.update(named)
        self._names.update({id(value): name for name, value in named.items()})

    def name_of(self, value: Any) -> str | None:
        """Return the name under which all processes know an object; None if they do
        not.
        """
        found = self._names.get(id(value))
        if found is None and self._own:
            return self.own_name(value)
        return found

    def own_name(self, value: Any) -> str | None:
        """Return the name of an object that a script of this process defines."""
        module = getattr(value, "__module__", None)
        for script in self._scripts:
            if script.__name__ == module:
                qualified = getattr(value, "__qualname__", None)
                if (
                    isinstance(qualified, str)
                    and _attribute(script, qualified) is value
                ):
                    return self.spell(script.__name__, qualified)
        return None

    def name_in_full(self, value: Any) -> str | None:
        """Return the full name of a class or function; None if it has no name."""
        module = getattr(value, "__module__", None)
        qualified = getattr(value, "__qualname__", None)
        if not isinstance(module, str) or not isinstance(qualified, str):
            return None
        return None if "<lambda>" in qualified else self.spell(module, qualified)

    def find(self, name: str) -> Any:
        """Return the object of a name."""
        where, _, qualified = name.partition(":")
        name = self.spell(where, qualified)  # a checkpoint may have an older spelling
        if name not in self._objects and self._load_more is not None:
            load, self._load_more = self._load_more, None
            self.add(load())
        if name in self._objects:
            return self._objects[name]
        for module in self._scripts:
            if name.startswith(self.spell(module.__name__, "")):
                found = _attribute(module, qualified)
                if found is not None:
                    return found
        with contextlib.suppress(ImportError):  # an earlier run had to send its code
            found = _attribute(importlib.import_module(where), qualified)
            if found is not None:
                return found
        msg = f"there is no {name.replace(':', '.')} in the program"
        raise pickle.UnpicklingError(msg)

    def find_shipped(self, module: str, qualified: str) -> Any:
        """Return an object of a module that came with the program; None if it did not.

        Where this run sends a module by value, an earlier one may have imported it.
        """
        return self._objects.get(self.spell(module, qualified))

    @cached_property
    def _scripts(self) -> tuple[ModuleType, ...]:
        return scripts()

    def spell(self, module: str, qualified: str) -> str:
        """Return the full name of an object of a module.

        A program file is named after its file, whatever its module had to be called.

        >>> PickledNames(main="my_job").spell("__main__", "City")
        'my_job:City'
        >>> PickledNames().spell("my_job" + PROGRAM, "City")
        'my_job:City'
        """
        own = self.main if module == MAIN else module.removesuffix(PROGRAM)
        return f"{own}:{qualified}"


def name_of_main() -> str:
    """Return the name of this process's script: that of its file, if it has one."""
    file = getattr(sys.modules.get(MAIN), "__file__", None)
    return MAIN if file is None else Path(file).stem


def scripts() -> tuple[ModuleType, ...]:
    """Return the loaded modules that exist in this process only.

    Of two program files with one name, the one loaded last counts.
    """
    main = sys.modules.get(MAIN)
    loaded = (
        *(() if main is None else (main,)),
        *find_modules_by_value(),
        *not_importable(),
    )
    names = {module.__name__ for module in loaded}
    return tuple(one for one in loaded if one.__name__ + PROGRAM not in names)


def _attribute(module: Any, qualified: str) -> Any:
    found = module
    for part in qualified.split("."):
        found = getattr(found, part, None)
    return found


Reduce: TypeAlias = Callable[[Any], Any]  # from an object to what `__reduce__` returns

_CLOUDPICKLE = internals.__name__
_OF_IMPORT = frozenset(["__builtins__", "__loader__", "__spec__", "__cached__"])
_CODE = (type, FunctionType, CACHE, typing.NewType)
_READERS = {  # methods of `ValueUnpickler` that replace naming functions
    "type": "_find_numbered",
    "named": "_find_named",
    "original": "_find_original",
    "fill_original": "_fill_original",
    "enum": "_find_enum",
    "fill_enum": "_fill_enum",
}
_SPECIAL = ("__getstate__", "__setstate__", "__reduce__", "__reduce_ex__")


class Pickler:
    """Pickles for one program; if `lasting`, its states are for a checkpoint.

    `classes` of the program are written as numbers: those that a checkpoint has given
    them (`numbers`), or their places in the program.

    >>> from anabranch.graph.graph import Graph
    >>> pickler = Pickler(Graph(()))
    >>> pickler.loads(pickler.dumps([("A", 1.5)]))
    [('A', 1.5)]
    """

    def __init__(
        self,
        graph: Graph,
        names: PickledNames | None = None,
        originals: Originals | None = None,
        *,
        lasting: bool = False,
        numbers: Sequence[int] | None = None,
    ) -> None:
        self._lasting = lasting
        self.classes = tuple(_classes_of(graph))
        given = range(len(self.classes)) if numbers is None else numbers
        self._numbered = dict(zip(given, self.classes, strict=True))
        self.names = PickledNames() if names is None else names
        self._originals = Originals() if originals is None else originals
        self._numbers = {id(cls): number for number, cls in self._numbered.items()}
        self._reducers: dict[type, Reduce | None] = {}
        self._heads: dict[type, bytes] = {}

    def dumps(self, value: Any) -> bytes:
        """Return a value as bytes, which may differ between processes."""
        return self._dump(value, ValuePickler)

    def dumps_state(self, value: Any) -> bytes:
        """Return a state as bytes; if lasting, readable by later releases.

        Its arrays that share memory are pickled again, now that these are known.
        """
        writer = LastingPickler if self._lasting else ValuePickler
        return self._dump(value, writer, shares=True)

    def dumps_entry(self, key: Any, state: Any) -> bytes:
        """Return a key and its state, as `dumps_state` does.

        A list of tuples of one type, such as a window's contents, is stored by
        attribute: that takes a fraction of the time.
        """
        if isinstance(state, HeldItems):
            some = state.columns and state.columns[0].length and has_rows(state.type)
            if some and state.plain and _is_plain(key):
                return self._dump_held(key, state)
            columns = tuple(tuple(column.list_values()) for column in state.columns)
            state = _Rows(state.type, columns) if some else state.list_items()
        else:
            state = _by_attribute(state)
        return self.dumps_state((key, state))

    def dumps_windows(self, key: Any, kept: tuple[Any, ...]) -> bytes:
        """Return what a clock's windows keep of a key; items are stored by attribute.

        The state is the first of what is kept: a dict of lists, or some lists.
        """
        state, *others = kept
        if type(state) is dict:
            state = {name: _by_attribute(value) for name, value in state.items()}
        elif type(state) is list:
            state = [*map(_by_attribute, state)]
        return self.dumps_state((key, (state, *others)))

    def dumps_times(self, key: Any, times: tuple[Any, ...]) -> bytes:
        """Return a key and plain times, as `dumps_state` does."""
        if _is_plain(key) and _is_plain(times):
            return pickle.dumps((key, times), _NO_FRAMES)
        return self.dumps_state((key, times))

    def _dump_held(self, key: Any, held: HeldItems) -> bytes:
        """Return an entry of plain values, assembled from plain `pickle` output.

        Only the values themselves have numbered memo entries: neither the key nor the
        type shifts them.
        """
        head = self._heads.get(held.type)
        if head is None:
            head = self._heads[held.type] = self._dump_head(held.type)
        buffer = io.BytesIO()
        short = pickle.Pickler(buffer, _NO_FRAMES)
        short.fast = True
        short.dump(key)
        columns = pickle.dumps(tuple(map(tuple, held.columns)), _NO_FRAMES)
        parts = _PROTOCOL, buffer.getvalue()[2:-1], head, columns[2:-1], _CALL
        return b"".join((*parts, pickle.TUPLE2, pickle.STOP))

    def _dump_head(self, kind: type) -> bytes:
        """Return the opcodes that load the function for held items, and the type."""
        writer = LastingPickler if self._lasting else ValuePickler
        whole = self._dump(_Held(kind), writer, fast=True)
        tail = pickle.EMPTY_TUPLE + _CALL + pickle.STOP
        start = _FRAME_END if whole[2:3] == pickle.FRAME else len(_PROTOCOL)
        assert whole.endswith(tail)  # noqa: S101 - as protocol 5 has it
        return whole[start : -len(tail)]

    def _dump(
        self,
        value: Any,
        writer: type[ValuePickler],
        *,
        fast: bool = False,
        shares: bool = False,
        shared: SharedMemory | None = None,
    ) -> bytes:
        buffer = io.BytesIO()
        try:
            made = writer(
                buffer, self.names, self._numbers, self._reducers, self._token_of
            )
            made.fast, made.fills_caches, made.shared = fast, True, shared
            made.dump(value)
            found = made.find_shared_memory() if shares else None
        except (MemoryError, CheckpointError, EngineError):
            raise
        except Exception as error:
            msg = (
                f"items and states must be able to travel between processes; "
                f"{type(error).__name__}: {error}; make such objects inside the "
                f"function that needs them, or run with on='local'"
            )
            raise EngineError(msg) from error
        if found is not None:
            return self._dump(value, writer, shared=found)
        return buffer.getvalue()

    def takes(self, value: Any) -> bool:
        """Tell whether a value can be pickled and unpickled."""
        try:
            self.loads(self.dumps(value))
        except EngineError:
            return False
        return True

    def loads(self, data: bytes | memoryview) -> Any:
        """Return the value of `dumps`."""
        try:
            return self._load(io.BytesIO(data))
        except MemoryError:
            raise
        except Exception as error:
            msg = (
                f"items and states must be able to travel between processes; one "
                f"could not be read again: {type(error).__name__}: {error}"
            )
            raise EngineError(msg) from error

    def _load(self, file: io.BytesIO) -> Any:
        reader = ValueUnpickler(file, self.names, self._numbered, self._originals)
        value = reader.load()
        for copy, token in reader.copies:
            self._originals.take(copy, token, self._digest(copy))
        return value

    def _token_of(self, value: Any) -> Token | None:
        """Return the token with which an object leaves; a changed copy has none."""
        token = self._originals.token_of(value)
        if token is None or self._originals.are_here:
            return token
        changed = self._originals.is_changed(value, self._digest(value))
        return None if changed else token

    def _digest(self, value: Any) -> bytes:
        """Return bytes that change when an object's contents do."""
        buffer = io.BytesIO()
        writer = ValuePickler(
            buffer, self.names, self._numbers, self._reducers, checked=False
        )
        writer.dump(value.__reduce_ex__(5)[1:3])
        return hashlib.blake2b(buffer.getvalue(), digest_size=16).digest()


_PROTOCOL = pickle.PROTO + b"\x05"
_FRAME_END = len(_PROTOCOL) + 1 + 8  # the frame tells its length
_NO_FRAMES = 3  # the protocol
_CALL = pickle.TUPLE2 + pickle.REDUCE  # of a function with two arguments


class _Rows:
    """Stands for a list of tuples of one type; it is unpickled as the list."""

    def __init__(self, kind: type, columns: tuple[tuple[Any, ...], ...]) -> None:
        self._given = kind, columns

    def __reduce__(self) -> Any:
        return _rows_of, self._given


def _is_plain(key: Any) -> bool:
    parts = key if type(key) is tuple else (key,)
    return PLAIN_TYPES.issuperset(map(type, parts))


class _Held:
    """Stands for items of a type given by held columns."""

    def __init__(self, kind: type, columns: tuple[HeldColumn, ...] = ()) -> None:
        self._given = kind, tuple(map(tuple, columns))

    def __reduce__(self) -> Any:
        return _restore_items, self._given


def _by_attribute(value: Any) -> Any:
    """Return a list of tuples of one type by attribute, any other value as it is."""
    if isinstance(value, HeldItems):
        some = value.columns and has_rows(value.type)
        return _Held(value.type, value.columns) if some else value.list_items()
    if is_rows(value):
        return _Rows(type(value[0]), tuple(zip(*value, strict=True)))
    return value


def is_rows(state: Any) -> bool:
    """Tell whether a state is a list of tuples of one type with only attributes.

    >>> from typing import NamedTuple
    >>> class Point(NamedTuple):
    ...     x: int
    >>> is_rows([Point(1), Point(2)]), is_rows([Point(1), 2]), is_rows([]), is_rows([(1,)])
    (True, False, False, False)
    """
    if type(state) is not list or not state:
        return False
    kind: Any = type(state[0])
    return (
        len(set(map(type, state))) == 1
        and has_rows(kind)
        and len(set(map(len, state))) == 1
    )


@functools.lru_cache(maxsize=256)
def has_rows(kind: type) -> bool:
    """Tell whether instances of a type are tuples with only attributes."""
    return (
        issubclass(kind, tuple)
        and not kind.__dictoffset__
        and bool(getattr(kind, "_fields", ()))
        and _reducer_of(kind) is _reduce_tuple
    )


class ValuePickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles one value; sends by value what the receiver does not know by name.

    If `checked`, an object that a class's own functions pickle is compared with a copy.
    Items and states have caches with all their entries (`fills_caches`).
    """

    fills_caches = False

    def __init__(
        self,
        file: Any,
        names: PickledNames,
        numbers: dict[int, int] | None = None,
        reducers: dict[type, Reduce | None] | None = None,
        token_of: Callable[[Any], Token | None] = lambda _: None,
        *,
        checked: bool = True,
    ) -> None:
        super().__init__(file, protocol=5)
        self._checked = checked
        self.shared: SharedMemory | None = None
        self._arrays: list[Any] = []
        self._compared: dict[int, Any] = {}  # by id
        self._whole: Any = None  # what is pickled
        self._listed: set[type] = set()  # the types compared together
        self._token_of = token_of
        self._names = names
        self._numbers = {} if numbers is None else numbers
        self._reducers = {} if reducers is None else reducers
        # by id, cells of functions with those that stand for them
        self._cells: dict[int, tuple[CellType, CellType]] = {}

    def _function_getnewargs(self, func: Any) -> Any:
        """Let functions that share an outer variable share it once they are unpickled.

        Cloudpickle gives each function cells of its own, so what one assigns, the other
        would not see.
        """
        *others, closure = super()._function_getnewargs(func)
        if closure is not None:
            pairs = zip(func.__closure__, closure, strict=True)
            known = self._cells
            closure = tuple(known.setdefault(id(o), (o, new))[1] for o, new in pairs)
        return *others, closure

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, np.ndarray):
            self._arrays.append(value)
            placed = None if self.shared is None else self.shared.reduce(value)
            if placed is not None:
                return placed
        try:
            reduce = self._reducers[kind]
        except KeyError:
            whole = _is_operator(kind) or (id(kind) in self._numbers and _plain(kind))
            reduce = self._reducers[kind] = (
                _reduce_object if whole else _reducer_of(kind)
            )
        if reduce is None:
            return NotImplemented
        if reduce is _reduce_code:
            return self.reduce_code(value)
        if reduce is _reduce_original:
            return self._reduce_original(value)
        if reduce is _reduce_module:
            return _reduce_module(value, self._names.used)
        reduced = reduce(value)
        if reduce is _reduce_by_hooks or (
            reduce is _reduce_with_attributes and _is_made_again(kind, reduced)
        ):
            self._refuse_loss(value)
        return reduced

    def dump(self, value: Any) -> Any:
        self._whole = value
        return super().dump(value)

    def find_shared_memory(self) -> SharedMemory | None:
        """Return the memory that arrays share which were pickled."""
        return find_shared_memory(self._arrays, self.memo.copy)

    def leave_unchecked(self, values: Iterable[Any]) -> None:
        """Leave out objects that no copy has to equal, such as connectors."""
        self._compared.update({id(value): value for value in values})

    def _refuse_loss(self, value: Any) -> None:
        """Raise if a copy of an object lacks what the program reads of it."""
        if not self._checked or id(value) in self._compared:
            return
        together = self._list_alike(value)
        reader = ValueUnpickler(io.BytesIO(self._dump_unchecked(together)), self._names)
        comparison = Comparison(self._names.reads, self._dump_unchecked)
        loss = comparison.find_loss(together, reader.load())
        if loss is not None:
            raise EngineError(str(loss))
        self._compared.update(comparison.compared)

    def _list_alike(self, value: Any) -> list[Any]:
        """Return an object with those of its type beside it: many cost less at once."""
        whole, kind = self._whole, type(value)
        if kind in self._listed:
            return [value]
        self._listed.add(kind)
        for part in (whole, *whole) if type(whole) is tuple else (whole,):
            if type(part) is list and kind in map(type, part):
                return [each for each in part if type(each) is kind] + [value]
        return [value]

    def _dump_unchecked(self, value: Any) -> bytes:
        buffer = io.BytesIO()
        ValuePickler(buffer, self._names, checked=False).dump(value)
        return buffer.getvalue()

    def _reduce_original(self, value: Any) -> Any:
        """Return the reduction of an object that is to come back as itself."""
        token = self._token_of(value)
        if token is None:
            return NotImplemented
        make, arguments, state = value.__reduce_ex__(5)[:3]
        return _original, (token, make, arguments), state, None, None, _fill_original

    def reduce_code(self, value: Any) -> Any:
        """Return the reduction of a class or function."""
        if id(value) in self._numbers:
            return _class_numbered, (self._numbers[id(value)],)
        if getattr(value, "__module__", None) == MODULE:
            return NotImplemented
        if (name := name_of(value)) is not None:
            return find, (name,)
        if (name := self._names.name_of(value)) is not None:
            return _named, (name,)
        if isinstance(value, CACHE | typing.NewType) or _is_dispatcher(value):
            full = self.fills_caches and isinstance(value, CACHE)
            reduce = reduce_cache if full else _reduce_wrapper
            return NotImplemented if _is_importable(value) else reduce(value)
        reduced = super().reducer_override(value)
        by_value = reduced is not NotImplemented
        if by_value and isinstance(value, enum.EnumMeta):
            reduced = reduce_enum(value, reduced)
        return _with_slots(reduced) if by_value and _has_slots(value) else reduced


class LastingPickler(ValuePickler):
    """Pickles for a checkpoint; refuses what only this release could load."""

    def reduce_code(self, value: Any) -> Any:
        reduced = super().reduce_code(value)
        if reduced is NotImplemented and is_ours(value):
            msg = (
                f"what a checkpoint keeps must be of Python, of a library or your own; "
                f"a state holds {value.__module__}.{value.__qualname__}, which may have "
                f"another name in the next release of Anabranch; keep plain data instead"
            )
            raise CheckpointError(msg)
        return reduced


class ValueUnpickler(pickle.Unpickler):
    """Unpickles one value; finds classes by number and by name."""

    def __init__(
        self,
        file: Any,
        names: PickledNames,
        classes: Mapping[int, type] = MappingProxyType({}),
        originals: Originals | None = None,
    ) -> None:
        super().__init__(file)
        self._originals = Originals() if originals is None else originals
        self._names = names
        self._classes = classes
        self._complete: set[int] = set()
        self.copies: list[tuple[Any, Token]] = []  # of the driver's objects

    def find_class(self, module: str, name: str) -> Any:
        if module == MODULE:
            own = _READERS.get(name)
            return find_function(name) if own is None else getattr(self, own)
        if (stable := old_name(module, name)) is not None:
            found = OBJECTS.get(stable)
            return self.find_class(MODULE, stable) if found is None else found
        if module == _CLOUDPICKLE:
            if name in ("_make_skeleton_class", "_make_skeleton_enum"):
                return functools.partial(self._find_class, getattr(internals, name))
            if name == "_class_setstate":
                return self._fill_class
        elif module == "__main__":  # by a stand-in that reduces itself to a name
            return self._names.find(self._names.spell(module, name))
        shipped = self._names.find_shipped(module, name)
        return super().find_class(module, name) if shipped is None else shipped

    def _find_numbered(self, number: int) -> type:
        if number not in self._classes:
            msg = (
                f"it has items of a tuple type that is no longer in the program (number "
                f"{number} of the types in program.json, from 0)"
            )
            raise LookupError(msg)
        return self._classes[number]

    def _find_named(self, name: str) -> Any:
        return self._names.find(name)

    def _find_original(self, token: Any, make: Any, arguments: Any) -> Any:
        """Return the object that this process sent, or a copy that knows its token."""
        found = self._originals.find(token)
        if found is not None:
            self._complete.add(id(found))
            return found
        made = make(*arguments)
        self.copies.append((made, token))
        return made

    def _fill_original(self, made: Any, state: Any) -> Any:
        """Set the attributes of a copy; the original already has them."""
        if id(made) not in self._complete:
            fill_object(made, state)
        return made

    def _find_class(self, make: Callable[..., type], *described: Any) -> type:
        """Return a class sent by value; an existing one, if there is one."""
        tracked = internals._DYNAMIC_CLASS_TRACKER_BY_ID.get(described[-2])  # noqa: SLF001
        if tracked is None:
            return make(*described)
        self._complete.add(id(tracked))
        return tracked  # type: ignore[no-any-return]

    def _find_enum(self, *described: Any) -> type:
        return self._find_class(make_enum, *described)

    def _fill_enum(self, cls: type, state: Any) -> type:
        return cls if id(cls) in self._complete else fill_enum(cls, state)

    def _fill_class(self, cls: type, state: Any) -> type:
        """Set the attributes of a new class; an existing one keeps its own."""
        if id(cls) not in self._complete:
            internals._class_setstate(cls, state)  # noqa: SLF001
        return cls


def _reducer_of(kind: type) -> Reduce | None:  # noqa: C901, PLR0911 - one case per kind
    """Return the reducer for instances of a type; None for the default."""
    if issubclass(kind, _CODE):
        return _reduce_code
    if issubclass(kind, ModuleType):
        return _reduce_module
    if kind in _REDUCERS:
        return _REDUCERS[kind]
    if kind in copyreg.dispatch_table or kind in ValuePickler.dispatch_table:
        return _by_hooks(kind)
    if issubclass(kind, enum.Enum):
        plain = kind.__reduce_ex__ is enum.Enum.__reduce_ex__
        return _reduce_member if plain else None
    if issubclass(kind, BaseException):
        own = isinstance(kind.__init__, FunctionType) and _keeps_reduce(kind)
        return _reduce_exception if own else None
    if not all(getattr(kind, s, None) is getattr(object, s, None) for s in _SPECIAL):
        return _by_hooks(kind)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _reduce_tuple
    if _needs_own_new(kind):
        return _reduce_object
    if _is_value_with_own_new(kind):
        return _reduce_value
    return _by_hooks(kind) or (_reduce_original if is_identified(kind) else None)


def _by_hooks(kind: type) -> Reduce | None:
    if find_hook(kind) is not None:
        return _reduce_by_hooks
    found = find_library_hook(kind)
    if found is None:
        return None
    owner, _ = found
    return _reduce_by_hooks if _has_attributes(owner) else _reduce_with_attributes


def _has_attributes(owner: type) -> bool:
    """Tell whether objects of a library have attributes of their own.

    Its hook leaves out some of them on purpose, such as caches and handles.
    """
    return bool(owner.__dictoffset__) and owner is not Counter


def _reduce_by_hooks(_: Any) -> Any:
    """Mark objects that their class pickles; `ValuePickler` compares them with a copy."""
    return NotImplemented


def _reduce_with_attributes(value: Any) -> Any:
    """Return the reduction that a library has for an object, with its attributes."""
    kind: Any = type(value)
    make, arguments, *others = value.__reduce_ex__(5)
    attributes = attributes_of(value)
    if not attributes:
        return make, arguments, *others
    state, items, pairs, setter = (*others, None, None, None, None)[:4]
    own = vars(value) if kind.__dictoffset__ else {}
    slots = {name: one for name, one in attributes.items() if name not in own}
    more = state, setter, (own, slots)
    return make, arguments, more, items, pairs, _fill_attributes


def _is_made_again(kind: Any, reduced: tuple[Any, ...]) -> bool:
    """Tell whether a copy is made by the user's code, or is of another class."""
    make, arguments, *_ = reduced
    if make is kind:
        return any(isinstance(f, FunctionType) for f in (kind.__new__, kind.__init__))
    return not any(each is kind for each in arguments)


def _reduce_original(value: Any) -> Any:
    """Mark objects that come back as themselves; `ValuePickler` knows their tokens."""
    raise AssertionError(value)


def _reduce_code(value: Any) -> Any:
    """Mark classes and functions; `ValuePickler` knows how to pickle them."""
    raise AssertionError(value)


def _reduce_annotation(value: typing.ForwardRef) -> Any:
    """Return the reduction of an annotation in quotes: its text.

    Its resolved value may be the class it belongs to, which does not exist yet.
    """
    return typing.ForwardRef, (value.__forward_arg__,)


def _reduce_property(value: functools.cached_property[Any]) -> Any:
    """Return the reduction of a property that is computed once.

    Until Python 3.12 it holds a lock.
    """
    return _property_of, (value.func, value.attrname, value.__doc__)


_REDUCERS: Final[Mapping[type, Reduce]] = {
    typing.ForwardRef: _reduce_annotation,
    functools.cached_property: _reduce_property,
    np.ndarray: reduce_array,
    **dict.fromkeys(VIEWS, reduce_view),
    struct.Struct: lambda value: (struct.Struct, (value.format,)),
}


def _reduce_tuple(item: Any) -> Any:
    return _tuple_of, (type(item), tuple(item)), getattr(item, "__dict__", None) or None


def _reduce_object(item: Any) -> Any:
    """Reduce an object to all of its attributes, whatever its class says of pickling.

    They are set once it exists, since they may reach the object itself, as a bound method
    does. `_fill_original` sets them past methods of the class such as `__getattr__`.
    """
    state = object.__getstate__(item)
    return _object_of, (type(item), {}), state, None, None, _fill_original


def _is_value_with_own_new(kind: type) -> bool:
    """Tell whether instances are numbers, texts or tuples that `__new__` computes.

    A copy must not be computed again: `__new__` may add to what it is given.
    """
    base = next((each for each in VALUES if issubclass(kind, each)), None)
    if base is None or not isinstance(kind.__new__, FunctionType):
        return False
    own = getattr(kind, "__getnewargs__", None)
    plain = own is getattr(base, "__getnewargs__", None)
    slots = any("__slots__" in vars(each) for each in kind.__mro__)
    return plain and not hasattr(kind, "__getnewargs_ex__") and not slots


def _reduce_value(value: Any) -> Any:
    base = next(each for each in VALUES if isinstance(value, each))
    return _value_of, (type(value), VALUES[base](value)), vars(value) or None


def _reduce_member(member: Any) -> Any:
    """Reduce an enum member to its name.

    Its value may have no equal in another process; a function has none.
    """
    name = member._name_  # the enum may have a member called `name`
    if name in type(member).__members__:
        return _member_of, (type(member), name)
    return NotImplemented  # a combination of flags


def _reduce_exception(error: Any) -> Any:
    """Reduce an exception whose constructor may take arguments other than `args`."""
    kind, arguments, *attributes = error.__reduce__()
    return _exception_of, (kind, arguments), *attributes


def _is_dispatcher(value: Any) -> bool:
    """Tell whether a function was made by `functools.singledispatch`."""
    return isinstance(value, FunctionType) and all(
        hasattr(value, name) for name in ("registry", "dispatch", "_clear_cache")
    )


def _reduce_wrapper(value: Any) -> Any:
    if isinstance(value, typing.NewType):
        return typing.NewType, (value.__name__, value.__supertype__)
    if isinstance(value, FunctionType):  # functions it calls may call it in turn
        called = tuple(value.registry.items())  # type: ignore[attr-defined]
        return _dispatcher_of, (), called, None, None, _fill_dispatcher
    return make_cache, (value.__wrapped__, value.cache_parameters())


def _reduce_module(module: ModuleType, used: Reads = None) -> Any:
    """Return the reduction of a module: by value, with the variables that are used."""
    if internals._should_pickle_by_reference(module):  # noqa: SLF001
        return NotImplemented
    variables = {
        name: value
        for name, value in vars(module).items()
        if (used is None or name in used) and name not in _OF_IMPORT
    }
    make = internals.dynamic_subimport, (module.__name__, {"__doc__": module.__doc__})
    return *make, variables, None, None, _fill_module


def _has_slots(value: Any) -> bool:
    """Tell whether a class has slots of its own."""
    entries = vars(value) if isinstance(value, type) else {}
    return "__slots__" in entries and any(
        isinstance(entry, MemberDescriptorType) for entry in entries.values()
    )


def _with_slots(reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the reduction of a class sent by value, with its slots.

    They must be known when it is created: otherwise its instances have a dictionary.
    """
    make, (meta, name, bases, entries, *others), (attributes, more), *rest = reduced
    inside = {
        entry: value
        for entry, value in attributes.items()
        if not isinstance(value, MemberDescriptorType)
    }
    entries = {**entries, "__slots__": inside.pop("__slots__")}
    return make, (meta, name, bases, entries, *others), (inside, more), *rest


def _is_importable(value: Any) -> bool:
    """Tell whether an object can be imported by name from its module."""
    found = internals._lookup_module_and_qualname(value)  # noqa: SLF001
    return found is not None and not internals._is_registered_pickle_by_value(found[0])  # noqa: SLF001


def _keeps_reduce(kind: type[BaseException]) -> bool:
    return not any(
        isinstance(getattr(kind, name, None), FunctionType)
        for name in ("__reduce__", "__reduce_ex__", "__setstate__")
    )


def _needs_own_new(kind: type) -> bool:
    """Tell whether instances are their attributes, but `__new__` needs arguments."""
    if not isinstance(kind.__new__, FunctionType):
        return False
    if any("__slots__" in vars(base) for base in kind.__mro__) or any(
        hasattr(kind, name) for name in ("__getnewargs__", "__getnewargs_ex__")
    ):
        return False
    try:
        object.__new__(kind)
    except TypeError:  # it has more than attributes
        return False
    return True


@name_function("type")
def _class_numbered(number: int) -> type:
    msg = f"class {number} can only be found by the pickler of its program"
    raise pickle.UnpicklingError(msg)


@name_function("named")
def _named(name: str) -> Any:
    msg = f"{name} can only be found by the pickler of its program"
    raise pickle.UnpicklingError(msg)


@name_function("original")
def _original(token: Any, *_: Any) -> Any:
    msg = f"{token} can only be found by the pickler of its program"
    raise pickle.UnpicklingError(msg)


@name_function("fill_original")
def _fill_original(made: Any, _: Any) -> Any:
    msg = f"{made!r} can only be filled by the pickler of its program"
    raise pickle.UnpicklingError(msg)


def fill_object(made: Any, state: Any) -> None:
    """Set an object's attributes, as `pickle` does; those of slots come second."""
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    if attributes:
        vars(made).update(attributes)
    for name, value in (slots or {}).items():
        object.__setattr__(made, name, value)


@name_function("fill_attributes")
def _fill_attributes(made: Any, given: tuple[Any, Any, tuple[Any, Any]]) -> None:
    """Let a library restore an object, then set the attributes that it does not know."""
    state, setter, attributes = given
    if setter is not None:
        setter(made, state)
    elif state is not None and hasattr(made, "__setstate__"):
        made.__setstate__(state)
    elif state is not None:
        fill_object(made, state)
    fill_object(made, attributes)


@name_function("tuple")
def _tuple_of(cls: Any, values: tuple[Any, ...]) -> Any:
    if len(values) < len(cls._fields):  # of a migrated checkpoint
        values += _later_values(cls, cls._fields[len(values) :])
    return tuple.__new__(cls, values)


@name_function("value")
def _value_of(cls: type, value: Any) -> Any:
    return type(value).__new__(cls, value)


@name_function("rows")
def _rows_of(cls: Any, columns: tuple[tuple[Any, ...], ...]) -> list[Any]:
    later = _later_values(cls, cls._fields[len(columns) :])
    return [tuple.__new__(cls, (*row, *later)) for row in zip(*columns, strict=True)]


@name_function("held")
def _restore_items(cls: Any, columns: tuple[tuple[str, Any, int], ...]) -> list[Any]:
    items = HeldItems(cls, tuple(starmap(HeldColumn, columns))).list_items()
    if len(columns) < len(cls._fields):
        return [_tuple_of(cls, tuple(item)) for item in items]
    return items


def _later_values(cls: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the defaults of attributes added since an object was saved."""
    defaults = getattr(cls, "_field_defaults", {})
    return tuple(defaults[name] for name in names if name in defaults)


@name_function("object")
def _object_of(cls: type, attributes: dict[str, Any]) -> Any:
    made: Any = object.__new__(cls)
    for name, value in attributes.items():
        object.__setattr__(made, name, value)  # also into a frozen dataclass
    return made


@name_function("member")
def _member_of(cls: Any, name: str) -> Any:
    return cls.__members__[name]


@name_function("exception")
def _exception_of(kind: type[BaseException], arguments: tuple[Any, ...]) -> Any:
    """Create an exception without running the user's constructor."""
    made = kind.__new__(kind, *arguments)
    inits = (vars(base).get("__init__") for base in kind.__mro__)
    for init in inits:
        if init is not None and not isinstance(init, FunctionType):
            init(made, *arguments)
            break
    return made


@name_function("cached_property")
def _property_of(function: Any, name: str | None, doc: str | None) -> Any:
    made = functools.cached_property(function)
    made.attrname = name
    made.__doc__ = doc
    return made


@name_function("fill_module")
def _fill_module(made: ModuleType, variables: dict[str, Any]) -> None:
    vars(made).update(variables)


@name_function("dispatcher")
def _dispatcher_of() -> Any:
    return functools.singledispatch(repr)  # until it is filled


@name_function("fill_dispatcher")
def _fill_dispatcher(made: Any, called: tuple[tuple[type, Any], ...]) -> None:
    for kind, function in called:
        made.register(kind, function)
    functools.update_wrapper(made, made.registry[object])


def _classes_of(graph: Graph) -> Iterable[type]:
    """Yield the classes that a program names, in an order that depends on it alone."""
    found: dict[type, None] = {}
    for op in graph:
        if isinstance(op.type, type) and fields_of(op.type) is not None:
            found[op.type] = None
        if isinstance(op.kind, Apply) and _plain(op.kind.operator):
            found[op.kind.operator] = None
        if isinstance(op.kind, Iterate):
            found.update(dict.fromkeys(_classes_of(op.kind.body)))
    return found


def _is_operator(kind: type) -> bool:
    """Tell whether instances are operators, whose state is their attributes."""
    return issubclass(kind, Operator) and _is_made_of_attributes(kind)


def _plain(cls: type) -> bool:
    """Tell whether instances consist of their attributes only."""
    inherited = all(getattr(cls, s, None) is getattr(object, s, None) for s in _SPECIAL)
    return inherited and not any("__slots__" in vars(base) for base in cls.__mro__)
