"""How items and states are pickled between the driver and the workers.

A class that the user wrote in a script does not exist under its name in a worker, so
plain pickles of its instances would not load there. The classes that a program names
are known on both sides; their instances are pickled by number.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable
from typing import Any

from pyspark import cloudpickle

from anabranch.graph.custom import Apply
from anabranch.graph.graph import Graph
from anabranch.graph.iterate import Iterate
from anabranch.graph.types import fields_of


class Pickler:
    """Pickles for one program.

    >>> from anabranch.graph.graph import Graph
    >>> pickler = Pickler(Graph(()))
    >>> pickler.loads(pickler.dumps([("A", 1.5)]))
    [('A', 1.5)]
    """

    def __init__(self, graph: Graph) -> None:
        self.classes = tuple(_classes_of(graph))
        self._reducers: dict[type, Callable[[Any], Any]] = {
            cls: self._reducer(number, cls) for number, cls in enumerate(self.classes)
        }

    def dumps(self, value: Any) -> bytes:
        """Return a value as bytes; the same value may have other bytes elsewhere."""
        buffer = io.BytesIO()
        pickler = pickle.Pickler(buffer, protocol=5)
        pickler.dispatch_table = self._reducers
        try:
            pickler.dump(value)
        except (pickle.PicklingError, AttributeError, TypeError):
            return cloudpickle.dumps(value)  # type: ignore[no-any-return]
        return buffer.getvalue()

    def loads(self, data: bytes | memoryview) -> Any:
        """Return the value of `dumps`."""
        return _Unpickler(io.BytesIO(data), self.classes).load()

    @staticmethod
    def _reducer(number: int, cls: type) -> Callable[[Any], Any]:
        stand_in = _Class(number)  # one object: a pickle writes it out only once
        if issubclass(cls, tuple):
            return lambda item: (_tuple_of, (stand_in, tuple(item)))
        return lambda item: (_object_of, (stand_in, vars(item)))


class _Class:
    """Stands for class `number` of the program inside a pickle."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _class_numbered, (self.number,)


class _Unpickler(pickle.Unpickler):
    """Finds the classes of a program by their number."""

    def __init__(self, file: io.BytesIO, classes: tuple[type, ...]) -> None:
        super().__init__(file)
        self._classes = classes

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__ and name == "_class_numbered":
            return self._classes.__getitem__
        return super().find_class(module, name)


def _class_numbered(number: int) -> type:
    msg = f"class {number} can only be found by the pickler of its program"
    raise pickle.UnpicklingError(msg)


def _tuple_of(cls: type, values: tuple[Any, ...]) -> Any:
    return tuple.__new__(cls, values)


def _object_of(cls: type, attributes: dict[str, Any]) -> Any:
    made: Any = object.__new__(cls)
    for name, value in attributes.items():
        object.__setattr__(made, name, value)  # also into a frozen dataclass
    return made


def _classes_of(graph: Graph) -> Iterable[type]:
    """Return the classes that a program names, in an order that depends on it alone."""
    found: dict[type, None] = {}
    for op in graph:
        if isinstance(op.type, type) and fields_of(op.type) is not None:
            found[op.type] = None
        if isinstance(op.kind, Apply) and _plain(op.kind.operator):
            found[op.kind.operator] = None
        if isinstance(op.kind, Iterate):
            found.update(dict.fromkeys(_classes_of(op.kind.body)))
    return found


def _plain(cls: type) -> bool:
    """Tell whether instances are nothing but their attributes."""
    special = ("__getstate__", "__setstate__", "__reduce__", "__reduce_ex__")
    inherited = all(getattr(cls, s, None) is getattr(object, s, None) for s in special)
    return inherited and not any("__slots__" in vars(base) for base in cls.__mro__)
