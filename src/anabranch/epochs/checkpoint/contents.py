"""Inspects a checkpoint, without its program and without an engine."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import json
import pickle
import re
from collections import namedtuple
from collections.abc import Iterator
from types import MethodType
from typing import Any, NamedTuple

from anabranch.connectors.storage import Location
from anabranch.epochs.checkpoint.directory import refuse_untrusted
from anabranch.epochs.checkpoint.files import read_states
from anabranch.epochs.checkpoint.record import (
    Record,
    Snapshot,
    find_epochs,
    read_program,
    read_record,
)
from anabranch.epochs.checkpoint.seal import Seal
from anabranch.epochs.state.buckets import PREFIX_BYTES, bucket_of_entry, in_ranges
from anabranch.epochs.state.store import GONE
from anabranch.epochs.transport.stable_names import (
    MODULE,
    OBJECTS,
    find,
    find_function,
    old_name,
)
from anabranch.errors import CheckpointError


class BucketSize(NamedTuple):
    """The size of a unit's bucket."""

    unit: str
    bucket: int
    keys: int
    size: int


class Contents:
    """A checkpoint as it is on disk, or in its store."""

    def __init__(self, directory: Location) -> None:
        self.directory = directory
        self._seal = Seal.from_environment()
        refuse_untrusted(directory, self._seal)
        described = read_program(directory, self._seal)
        self.identity: str = described["identity"]
        self.program: dict[str, Any] = described["program"]
        self.record = Record()
        for epoch in find_epochs(directory)[:1]:
            self.record = read_record(directory, epoch, self._seal)

    def buckets(self) -> list[BucketSize]:
        """Return the size of each bucket that is not empty.

        A bucket that was split counts as one until one of its halves changes.
        """
        found: dict[tuple[str, int], list[int]] = {}
        for unit in sorted({held.unit for held in self.record.held}):
            for raw, (bucket, state) in self._entries(unit).items():
                found.setdefault((unit, bucket), []).append(len(raw) + len(state))
        return [
            BucketSize(unit, bucket, len(sizes), sum(sizes))
            for (unit, bucket), sizes in sorted(found.items())
        ]

    def states(self, operator: str) -> Iterator[tuple[Any, Any]]:
        """Yield key and state of each key of `UNIT/OPERATOR`, or of an operator.

        Both are plain data: a tuple of a program's type is shown as a dictionary.
        """
        name = operator.rpartition("/")[2]
        place = self.program["states"].get(name)
        if place is None or operator not in (name, f"{place['unit']}/{name}"):
            have = ", ".join(
                f"{one['unit']}/{name}" for name, one in self.program["states"].items()
            )
            msg = f"there is no state of {operator!r} in {self.directory}; have: {have}"
            raise CheckpointError(msg)
        begun = self.record.begun.get(place["unit"])
        if begun is not None:
            yield [], plain(self._load_state(begun.states)[name])
        prefix = b"%04d/" % place["number"]
        entries = self._entries(place["unit"])
        for raw, (_, entry) in sorted(
            entries.items(), key=lambda one: (one[1][0], one[0])
        ):
            if raw.startswith(prefix):
                key, state = self._load_state(entry)
                yield plain(key), plain(state)

    def _entries(self, unit: str) -> dict[bytes, tuple[int, bytes]]:
        """Return bucket and state of each key of a unit, as last written."""
        files = [held for held in self.record.held if held.unit == unit]
        # by bucket, with the number of buckets
        found: dict[tuple[int, int], dict[bytes, bytes]] = {}
        last: dict[bytes, tuple[int, int]] = {}
        # A snapshot contains the logs up to its epoch.
        for held in sorted(
            files, key=lambda one: (one.epoch, isinstance(one, Snapshot))
        ):
            path = self.directory / "state" / unit / held.file
            buckets = list(in_ranges(held.held))
            if isinstance(held, Snapshot):
                for bucket in buckets:
                    found.pop((bucket, held.buckets), None)
            for key, state in read_states(path, buckets, self._seal, held.digest):
                raw, place = key[PREFIX_BYTES:], (bucket_of_entry(key), held.buckets)
                found.setdefault(place, {})[raw] = state
                last[raw] = place
        return {
            raw: (place[0], state)
            for raw, place in last.items()
            if (state := found.get(place, {}).get(raw, GONE)) != GONE
        }

    def _load_state(self, state: bytes) -> Any:
        types: list[str] = self.program["types"]
        try:
            return _Reader(io.BytesIO(state), [_stand_in(one) for one in types]).load()
        except Exception as error:
            msg = (
                f"a checkpoint must be whole; a state in {self.directory} cannot be "
                f"read: {error!r}; take another checkpoint"
            )
            raise CheckpointError(msg) from error


def plain(value: Any) -> Any:
    """Return a value in a form that JSON can represent.

    What contains itself, as an operator with a bound method does, is "..." inside.

    >>> plain((1, {"a": {2.5}}))
    [1, {'a': [2.5]}]
    """
    return _plain(value, frozenset())


def _plain(  # noqa: PLR0911 - one case per kind
    value: Any, around: frozenset[int]
) -> Any:
    """Return the plain form of a value inside of others, given their ids."""
    if isinstance(value, bool | int | float | str | None):
        return value
    if id(value) in around:
        return "..."
    within = functools.partial(_plain, around=around | {id(value)})
    if isinstance(value, MethodType):
        return within({"method of": value.__self__})
    if isinstance(value, dict):
        return {str(within(key)): within(one) for key, one in value.items()}
    if hasattr(value, "_asdict"):
        return within(value._asdict())
    if isinstance(value, list | tuple | set | frozenset) or hasattr(value, "popleft"):
        return [within(one) for one in value]
    if dataclasses.is_dataclass(value) or type(value).__module__ == __name__:
        return within(vars(value))
    return repr(value)


class Instance:
    """Stands for an object whose class is not available."""

    def __init__(self, *values: Any) -> None:
        if values:
            self.values = values


_CLOUDPICKLE = "cloudpickle.cloudpickle"
_OF_CODE = ("_make_function", "_function_setstate", "subimport", "dynamic_subimport")


def _stand_in_for_code(*_: Any) -> Instance:
    """Return what stands for a function or a module that went by value."""
    return Instance()


class _Reader(pickle.Unpickler):
    """Reads states without the classes of their program."""

    def __init__(self, file: io.BytesIO, classes: list[type]) -> None:
        super().__init__(file)
        self._classes = classes

    def find_class(self, module: str, name: str) -> Any:
        stable = name if module == MODULE else old_name(module, name)
        if stable is not None:
            return OBJECTS[stable] if stable in OBJECTS else self._find_function(stable)
        if module == _CLOUDPICKLE and name in _OF_CODE:
            return _stand_in_for_code  # code of the program is neither made nor run
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError):
            return Instance

    def _find_function(self, name: str) -> Any:
        """Return the function that stands in for one that rebuilds objects."""
        return {
            "find": find,
            "type": self._classes.__getitem__,
            "tuple": _tuple_of,
            "object": _object_of,
            "value": lambda _, value: value,
            "named": lambda _: Instance,
            "original": lambda _, make, arguments: make(*arguments),
            "fill_original": _keep_state,
            "member": lambda _, name: name,
            "exception": lambda _, arguments: Instance(*arguments),
            "cached": lambda function, _: function,
            "filled_cache": lambda function, _: function,
            "fill_cache": lambda *_: None,
            "fill_attributes": _keep_attributes,
            "enum": lambda *_: Instance,
            "fill_enum": lambda *_: None,
        }.get(name) or find_function(name)


def _tuple_of(cls: type, values: tuple[Any, ...]) -> Any:
    return cls(*values)


def _object_of(_: type, attributes: dict[str, Any]) -> Any:
    made = Instance()
    vars(made).update(attributes)
    return made


def _stand_in(text: str) -> type:
    """Return a tuple type with the attributes of a described one.

    >>> _stand_in("Trade(symbol: str, price: float)")("A", 1.5)
    Trade(symbol='A', price=1.5)
    """
    name, _, inside = text.partition("(")
    fields = re.findall(r"(\w+):", inside)
    short, nothing = name.rpartition(".")[2], [None] * len(fields)
    named: Any = namedtuple(short, fields, defaults=nothing)  # type: ignore[misc]  # noqa: PYI024
    return type(short, (named,), {"__setstate__": _keep_state, "_asdict": _as_dict})


def _keep_state(made: Any, state: Any) -> None:
    """Set the attributes of an object that is no tuple; those of slots come second."""
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    if isinstance(state, list):  # as for a dataclass with slots
        attributes = dict(zip(made._fields, state, strict=False))
    vars(made).update(attributes or {}, **(slots or {}))


def _keep_attributes(made: Any, given: tuple[Any, Any, Any]) -> None:
    """Set the state that a library gave an object, and the attributes beside it."""
    state, _, attributes = given
    for each in (state, attributes):
        with contextlib.suppress(TypeError):  # it has a value instead of attributes
            _keep_state(made, each or {})


def _as_dict(made: Any) -> dict[str, Any]:
    return {**dict(zip(made._fields, made, strict=True)), **vars(made)}


def as_json(value: Any) -> str:
    """Return plain data as one line."""
    return json.dumps(value, ensure_ascii=False)
