"""State of an operator that can be lifted out of globals and outer variables.

State that only one operator reads and writes belongs to that operator, wherever the
user put it. It can be saved and moved between processes if it can be pickled and if
nothing else refers to the same objects: a copy would diverge from them.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import pickle
from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from anabranch.graph.code_names import names_of
from anabranch.graph.graph import Op
from anabranch.graph.site import is_users_file
from anabranch.operators.lifted import StatePlace
from anabranch.operators.stateless import Filter, FlatMap, Map
from anabranch.python.objects import CALLABLES, is_scalar, is_users_class, list_storages
from anabranch.python.reach import find_origins
from anabranch.python.sharing import ATTRIBUTE, Sharing
from anabranch.python.values import Existing, Findings

_OTHERS = (*CALLABLES, ModuleType)  # code is the same in every process
_ON_THE_WAY = (  # called by pickle, or rebuilt by it as dicts and sets are
    *("__eq__", "__hash__", "__reduce__", "__reduce_ex__", "__getstate__"),
    *("__setstate__", "__getnewargs__", "__getnewargs_ex__", "__new__"),
    *("__getattr__", "__getattribute__", "__setattr__", "__del__"),
)
_MOST = 100_000  # limit of objects followed; larger states are not lifted


class Lift(NamedTuple):
    """The places of an operator's state, or why it cannot be lifted."""

    places: tuple[StatePlace, ...] = ()
    why_not: str = ""


def find_lift(op: Op, findings: Sequence[Findings], sharing: Sequence[Sharing]) -> Lift:
    """Return the places of an operator's state whose code changes something."""
    if not isinstance(op.kind, Map | Filter | FlatMap):
        return Lift(why_not=f"it is the code of a {op.kind.label}")
    function = op.kind.user_code[0].function
    if not isinstance(function, FunctionType):
        return Lift(why_not="it is not the state of a plain function")
    for shared in sharing:
        if op.name in (shared.reader, shared.writer):
            other = shared.writer if op.name == shared.reader else shared.reader
            return Lift(why_not=f"{other} uses it too")
    places: dict[StatePlace, None] = {}
    for found in findings:
        why = _why_not_followed(found)
        if why is not None:
            return Lift(why_not=why)
        for effect in found.effects:
            if effect.variable is None:
                return Lift(why_not=f"it is not in a variable: {effect.text}")
            places[effect.variable] = None
    state = _HeldState(function, tuple(places))
    why_not = next(state.why_not_lifted(findings), None)
    return Lift(state.places) if why_not is None else Lift(why_not=why_not)


def _why_not_followed(found: Findings) -> str | None:
    more = next((each for each in found.effects if each.kind != "changes"), None)
    if more is not None:
        text = more.text.partition(";")[0]
        return f"the code does more than change it: {text} (line {more.line})"
    if found.runs_anything or found.writes_anything or found.calls_anyone:
        return "the code cannot be followed wholly"
    if found.resources or found.writes_settings:
        return "the code changes settings of the process"
    return None


class _HeldState:
    """The values in a function's state places."""

    def __init__(self, function: FunctionType, places: tuple[StatePlace, ...]) -> None:
        self.places = places
        self._function = function
        self._values: dict[StatePlace, Any] = {}
        for place in places:
            with contextlib.suppress(KeyError, ValueError):
                self._values[place] = place.get(function)

    def why_not_lifted(self, findings: Sequence[Findings]) -> Iterator[str]:
        """Yield the reasons against lifting the state; each assumes those before it."""
        yield from _some(self.why_not_found())
        for found in findings:
            yield from _some(self.why_not_all(found))
            yield from _some(self.why_not_ordered(found))
        yield from _some(self.why_not_picklable())
        yield from _some(self.why_not_alone())

    def why_not_found(self) -> str | None:
        """Return the place that does not belong to the function, in words, or None."""
        lost = [place for place in self.places if place not in self._values]
        return f"{lost[0]} is not a variable of the function itself" if lost else None

    def why_not_all(self, found: Findings) -> str | None:
        """Return a change outside the places, or None."""
        names = self._function.__globals__
        values = (*self._values.values(), names)
        held = {id(one) for value in values for one in (value, *list_storages(value))}
        if any(id(one.target) not in held for one in found.changes.values()):
            return "something that a variable leads to is changed as well"
        for name, scope in found.rebinds:
            own = scope in (id(names), ATTRIBUTE)
            if not own and StatePlace("outer variable", name) not in self.places:
                return f"{name} is assigned elsewhere as well"
        return None

    def why_not_ordered(self, found: Findings) -> str | None:
        """Return where the order of a set is read, which a copy loses, or None."""
        within = _reach([*self._values.values()], ()) if found.tied else None
        for asked in found.tied.values():
            for root in find_origins(found, asked):
                if isinstance(root, Existing) and id(root.obj) in (within or ()):
                    return f"{asked.text} (line {asked.line})"
        return None

    def why_not_picklable(self) -> str | None:
        """Return the value that cannot be pickled completely, or None.

        Classes, functions, modules, enum members and loggers are pickled by name alone,
        so their attributes would be lost.
        """
        for place, value in self._values.items():
            if isinstance(value, _OTHERS):
                return f"{place} is {_name_kind(value)}, which is pickled by its name"
            try:
                data = pickle.dumps(value)
                by_name = not is_scalar(value) and pickle.loads(data) is value
            except Exception as error:  # noqa: BLE001 - pickling may raise anything
                return f"{place} cannot be pickled: {error}"
            if by_name:
                return f"{place} is pickled by its name"
        return None

    def why_not_alone(self) -> str | None:
        """Return what else refers to the values, or None."""
        values = [one for one in self._values.values() if not is_scalar(one)]
        within = _reach(values, ())
        beside = _reach([self._function], self.places)
        if within is None or beside is None:
            return "it leads to too many objects"
        functions = [one for one in beside.values() if isinstance(one, FunctionType)]
        for place in self.places:
            if any(_has_another(one, place, self._function) for one in functions):
                return f"another function has an {place} of its own"
        if _mutable(within) & _mutable(beside):
            return "something else that the function uses leads to it too"
        if _share_memory(_reach(values, (), storages=False) or within):
            return "arrays in it share memory"
        kinds = {type(one) for one in (*within.values(), *beside.values())}
        for kind in kinds:
            if is_users_class(kind) and _runs_code_on_the_way(kind):
                return f"pickling a {kind.__name__} runs code of the program"
        return None


def _some(why: str | None) -> tuple[str, ...]:
    return () if why is None else (why,)


def _name_kind(value: Any) -> str:
    if isinstance(value, ModuleType):
        return "a module"
    return "a class" if isinstance(value, type) else "a function"


def _runs_code_on_the_way(kind: type) -> bool:
    """Tell whether pickling or unpickling an instance runs user code."""
    return any(
        isinstance(function := vars(base).get(name), FunctionType)
        and function.__code__.co_filename != "<string>"  # else a dataclass generated it
        for base in kind.__mro__
        if is_users_class(base)
        for name in _ON_THE_WAY
    )


def _has_another(one: FunctionType, place: StatePlace, function: FunctionType) -> bool:
    """Tell whether a function has another outer variable of the same name."""
    if place.scope == "global" or place.name not in one.__code__.co_freevars:
        return False
    return place.cell(one) is not place.cell(function)


def _reach(
    roots: Sequence[Any], left_out: Sequence[StatePlace], *, storages: bool = True
) -> dict[int, Any] | None:
    """Return all objects reachable from some roots, by id; None if too many.

    With `storages`, what else holds the memory of an array is reached too.
    """
    seen: dict[int, Any] = {}
    waiting = list(roots)
    while waiting:
        one = waiting.pop()
        if is_scalar(one) or id(one) in seen:
            continue
        if len(seen) > _MOST:
            return None
        seen[id(one)] = one
        if isinstance(one, FunctionType):
            waiting += _of_function(one, left_out)
        elif not isinstance(one, _OTHERS):
            waiting += gc.get_referents(one)
            if storages and isinstance(one, np.ndarray):
                waiting += list_storages(one)
    return seen


def _share_memory(found: Mapping[int, Any]) -> bool:
    """Tell whether arrays share memory, of which each would have its own in a copy."""
    arrays = [one for one in found.values() if isinstance(one, np.ndarray)]
    if any(id(held) in found for one in arrays for held in list_storages(one)):
        return True
    return any(
        itertools.starmap(np.may_share_memory, itertools.combinations(arrays, 2))
    )


def _mutable(seen: Mapping[int, Any]) -> set[int]:
    return {key for key, one in seen.items() if not isinstance(one, _OTHERS)}


def _of_function(
    function: FunctionType, left_out: Sequence[StatePlace]
) -> Iterator[Any]:
    code = function.__code__
    if not is_users_file(code.co_filename):
        return
    for name in names_of(code).globals:
        if StatePlace("global", name) not in left_out and name in function.__globals__:
            yield function.__globals__[name]
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        if StatePlace("outer variable", name) not in left_out:
            yield from gc.get_referents(cell)
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
