"""Values: what an expression may stand for, and the effects of code.

A value is the set of objects it may be. For each object it matters who else can see it:
an object made in this call may be changed; the input item and anything that outlives
the call may not. The contents of a made object are kept in the `Heap`, by attribute and
position, so that a captured list does not become our own by being put into a tuple.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Literal, NamedTuple, TypeAlias

from anabranch.operators.lifted import StatePlace
from anabranch.python.arrivals import NOBODY, Arrival
from anabranch.python.ir import Call, Function, Instruction, MakeFunction
from anabranch.python.objects import list_storages
from anabranch.python.source import FunctionNode
from anabranch.python.universe import Universe

ELEMENTS = "[]"
SENT = "sent"  # to a generator
KEYS = "[key]"  # of a table: what is iterated, but not the values


@dataclass(frozen=True, slots=True)
class Plain:
    """An immutable value of a builtin type, such as a number or a text."""

    type: type | None = None


@dataclass(frozen=True, slots=True)
class Fresh:
    """An object made here, by the instruction with number `site`."""

    site: int
    type: Any = None


class LibraryObject:
    """Stands for the class of some built-in or package object."""


class SomeScalar:
    """Stands for the class of some immutable built-in value."""


@dataclass(frozen=True, slots=True)
class InputPart:
    """The input item, or anything reachable from it; `type` is its annotation."""

    type: Any = None


@dataclass(frozen=True, slots=True)
class SharedPart:
    """Something inside `target`, an object that outlives the call."""

    text: str
    target: int = 0  # its id
    kinds: frozenset[type] | None = None  # its possible types, if known


A_CLASS = "a class"  # the text of one that is not known


class Existing:
    """An existing object: a global, a captured variable, a default.

    `variable` is the variable it was read from, if any.
    """

    __slots__ = ("obj", "text", "variable")

    def __init__(self, obj: Any, text: str, variable: StatePlace | None = None) -> None:
        self.obj = obj
        self.text = text
        self.variable = variable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Existing) and self.obj is other.obj

    def __hash__(self) -> int:
        return id(self.obj)


@dataclass(frozen=True, slots=True)
class BoundMethod:
    """A user's function, bound to the object it is a method of."""

    owner: Root
    function: FunctionType


@dataclass(frozen=True, slots=True)
class Method:
    """A method, by name, of an object whose class is not the user's or not known."""

    owner: Root
    name: str


@dataclass(frozen=True, slots=True)
class Closure:
    """A function defined in the function under analysis."""

    made: MakeFunction
    frame: Any  # the Frame it was defined in


@dataclass(frozen=True, slots=True)
class Parent:
    """The value of `super()` in a method of `cls` called on `owner`."""

    owner: Root
    cls: type


@dataclass(frozen=True, slots=True)
class Lost:
    """Something that cannot be followed; the reason is recorded as an effect.

    If `made`, a package created it from its arguments: changing it changes nothing else
    of the program's.
    """

    made: bool = False


Root: TypeAlias = (
    Plain
    | Fresh
    | InputPart
    | SharedPart
    | Existing
    | BoundMethod
    | Method
    | Closure
    | Parent
    | Lost
)
Value: TypeAlias = frozenset[Root]

NOTHING: Value = frozenset()
PLAIN: Value = frozenset([Plain()])
LOST: Value = frozenset([Lost()])
MADE: Value = frozenset([Lost(made=True)])


def join(values: Iterable[Value]) -> Value:
    """Return the union of values."""
    return NOTHING.union(*values)


@dataclass
class Arguments:
    """The arguments of a call; `rest` may stand for any parameter."""

    positional: list[Value] = field(default_factory=list)
    keywords: dict[str, Value] = field(default_factory=dict)
    rest: Value = NOTHING

    def all(self) -> Value:
        """Return all arguments, by position and by name."""
        return join([*self.positional, *self.keywords.values(), self.rest])


class Heap:
    """The contents of objects made here, by attribute or position.

    It only grows; `version` tells whether it did.
    """

    def __init__(self) -> None:
        self._fields: dict[tuple[int, str], Value] = {}
        self._names: dict[int, set[str]] = {}
        self._sites: dict[Any, int] = {}
        self.version = 0

    def site(self, key: Any) -> int:
        """Return the number of a place where objects are made."""
        return self._sites.setdefault(key, len(self._sites))

    def put(self, site: int, name: str, value: Value) -> None:
        """Record that an object made at `site` may hold `value` under `name`."""
        old = self._fields.get((site, name), NOTHING)
        if not value <= old:
            self._fields[site, name] = old | value
            self._names.setdefault(site, set()).add(name)
            self.version += 1

    def get(self, site: int, name: str) -> Value:
        """Return the possible values of one attribute or position."""
        return self._fields.get((site, name), NOTHING)

    def fields(self, site: int) -> dict[str, Value]:
        """Return the possible contents of an object, by attribute or position."""
        return {n: self._fields[site, n] for n in self._names.get(site, ())}

    def inside(self, site: int) -> Value:
        """Return everything the object may hold."""
        return join(self._fields[site, n] for n in self._names.get(site, ()))

    def values(self, site: int) -> Value:
        """Return everything the object may hold, except the keys of a table."""
        names = (n for n in self._names.get(site, ()) if n != KEYS)
        return join(self._fields[site, n] for n in names)

    def elements(self, site: int) -> Value:
        """Return the possible values by index, key or iteration."""
        names = (n for n in self._names.get(site, ()) if n.startswith("["))
        return join(self._fields[site, n] for n in names)


CHANGES_INPUT = "changes the input item"
ANY_NAME = "*"  # of an attribute whose name is computed


class Place(NamedTuple):
    """A line of user code."""

    file: str
    line: int


class Effect(NamedTuple):
    """Something that makes a function unsafe to run in parallel.

    `changes`: it changes an object that outlives the call. `impure`: it depends on or
    affects the outside world. `identity`: it asks whether two values are one object,
    which their copies are not. `shared`: it reads what an operator's code changes.
    `unknown`: it cannot be followed. `variable` is the outer variable that is changed,
    or whose object is.
    """

    kind: Literal["changes", "impure", "identity", "shared", "unknown"]
    text: str
    file: str
    line: int
    variable: StatePlace | None = None


class Read(NamedTuple):
    """A read of a name or attribute that outlives the call, with its value.

    `scope` is where the name lives: a module's globals, the enclosing function, or None
    for an attribute.
    """

    name: str
    scope: Any
    target: Any
    file: str
    line: int


class Asked(NamedTuple):
    """An object of which code reads what a copy lacks: its identity, or its order."""

    root: Any  # an `Existing`, a `SharedPart`, or a `Fresh` that may be kept
    text: str
    file: str
    line: int


class Change(NamedTuple):
    """A possible change of an existing object; `name` for a global."""

    target: Any
    file: str
    line: int


@dataclass(eq=False)
class Frame:
    """The variables of one function under analysis.

    A variable may have any value ever assigned to it. Only in the rest of a block is
    the latest assignment known: `versions` has, for each block being executed, the keys
    of such variables in `variables`. Names that inner functions use are left out, since
    these run later. `function` is the object whose globals and cells are in scope.
    """

    code: Function
    file: str
    function: FunctionType
    parent: Frame | None = None
    made: MakeFunction | None = None  # in the parent
    variables: dict[Any, Value] = field(default_factory=dict)
    registers: dict[str, Value] = field(default_factory=dict)
    versions: list[dict[str, Any]] = field(default_factory=list)
    returned: Value = NOTHING
    yielded: Value = NOTHING
    finished_at: int = -1
    changed_sites: set[int] = field(default_factory=set)  # by it and what it calls

    def current(self, name: str) -> Value:
        """Return the possible values of a variable at the current statement."""
        for block in reversed(self.versions):
            if name in block:
                return self.variables.get(block[name], NOTHING)
        return self.variables.get(name, NOTHING)

    def keys_to_join(self, name: str) -> list[Any]:
        """Return the keys under which a value assigned now may be seen."""
        key: Any = name
        found = [] if self.versions else [key]
        for block in self.versions:
            key = block.get(name, key)
            found.append(key)
        return found

    def replace(self, name: str, step: Instruction) -> list[Any]:
        """Start a variable afresh for the rest of the block; return the keys to
        join.
        """
        if not self.versions or name in self.code.captured:
            return self.keys_to_join(name)
        *outer, block = self.versions
        self.versions.pop()
        found = self.keys_to_join(name) if outer else []
        self.versions.append(block)
        block[name] = (name, step)
        return [*found, block[name]]


@dataclass(frozen=True, slots=True, eq=False)
class Here:
    """An instruction being followed, in the frame of its function."""

    step: Instruction
    frame: Frame

    @property
    def place(self) -> Place:
        """Its line."""
        return Place(self.frame.file, self.step.line or self.frame.code.line)

    @property
    def text(self) -> str:
        """Its code."""
        return self.step.text

    @property
    def callee(self) -> str:
        """The code of the callee, if it is a call."""
        return self.step.callee if isinstance(self.step, Call) else self.step.text

    @property
    def arguments(self) -> list[Instruction | None]:
        """The instructions that computed the arguments, if it is a call."""
        given = self.step.arguments if isinstance(self.step, Call) else ()
        return [self.frame.code.maker_of(each.value) for each in given]


@dataclass
class Findings:
    """Everything known about a function and its callees."""

    effects: dict[Effect, None] = field(default_factory=dict)
    reads: dict[Any, Read] = field(default_factory=dict)
    changes: dict[int, Change] = field(default_factory=dict)
    touched: dict[int, Read] = field(default_factory=dict)
    # containers that operators opened, by id
    opened: set[int] = field(default_factory=set)
    visited: set[FunctionNode] = field(default_factory=set)
    believed: set[FunctionNode] = field(default_factory=set)  # declared, not visited
    runs_anything: bool = False  # it runs program code that was not analyzed
    gives: Arrival = NOBODY  # the types of its outputs
    hands_on: dict[int, Any] = field(default_factory=dict)  # objects that outlive calls
    keeps_nothing: bool = False  # an `Operator` unchanged after each item
    keeps_given: bool = False  # an output may be part of what it keeps
    changes_given: bool = False  # and may be changed later
    changes_shared: bool = False  # an output outlives the call, and may be changed
    orders_items: bool = False  # it depends on the order of a set it is given
    rebinds: dict[tuple[str, int], Place] = field(default_factory=dict)
    resources: dict[str, Place] = field(default_factory=dict)
    writes_anything: Place | None = None  # anything in the program
    calls_anyone: Place | None = None  # any function of the program
    writes_settings: Place | None = None  # decimal contexts and the like
    asked: dict[Any, Asked] = field(default_factory=dict)  # by root
    tied: dict[Any, Asked] = field(default_factory=dict)  # not to be copied, by root
    made_of: dict[int, Value] = field(default_factory=dict)  # by site of a set, others
    loses: Effect | None = None  # its state holds what must not be copied
    heap: Heap = field(default_factory=Heap)
    connector: bool = False  # of a user's source or sink: only sharing counts

    def effect(
        self,
        kind: Literal["changes", "impure", "identity", "unknown"],
        text: str,
        at: Place,
        variable: StatePlace | None = None,
    ) -> None:
        """Record an effect."""
        self.effects.setdefault(Effect(kind, text, at.file, at.line, variable))

    def change(
        self, target: Any, text: str, at: Place, variable: StatePlace | None = None
    ) -> None:
        """Record a change of an object that outlives the call."""
        for each in (target, *list_storages(target)):
            old = self.changes.get(id(each))
            if old is None or old.target is None:
                self.changes[id(each)] = Change(each, at.file, at.line)
        self.effect("changes", text, at, variable)

    def change_inside(self, target: int, text: str, at: Place) -> None:
        """Record a change inside an object, known by its id."""
        self.changes.setdefault(target, Change(None, at.file, at.line))
        self.effect("changes", text, at)

    def escape(self, target: Any, at: Place) -> None:
        """Record that unfollowed code may change an object."""
        for each in (target, *list_storages(target)):
            self.changes.setdefault(id(each), Change(each, at.file, at.line))

    def rebind(self, name: str, scope: Any, at: Place) -> None:
        """Record the assignment of a name or, if `scope` is None, an attribute."""
        self.rebinds.setdefault((name, scope_id(scope)), at)

    def touch(self, name: str, target: Any, at: Place) -> None:
        """Record a look at an object that outlives the call."""
        self.touched.setdefault(id(target), Read(name, None, target, at.file, at.line))

    def read(self, name: str, scope: Any, target: Any, at: Place) -> None:
        """Record a read of something that outlives the call."""
        self.touch(name, target, at)
        key = (name, scope_id(scope), id(target))
        self.reads.setdefault(key, Read(name, scope, target, at.file, at.line))


def scope_id(scope: Any) -> int:
    """Return the identity of a scope; see `Read`."""
    return id(scope[1] if isinstance(scope, tuple) else scope)


@dataclass(eq=False)
class AbstractInterpreter(ABC):
    """The knowledge about one operator's code while it is followed."""

    universe: Universe
    found: Findings = field(default_factory=Findings)
    growth: int = 0  # how often a variable gained a possibility
    raised: Value = NOTHING  # exceptions, wherever they were made
    changed_sites: set[int] = field(default_factory=set)  # of objects made here
    opaque_sites: set[int] = field(default_factory=set)  # unknown
    unordered_sites: set[int] = field(default_factory=set)  # sets made of sets
    kept: Value = NOTHING  # what generators still reach of what they have yielded
    rounding: set[Instruction] = field(default_factory=set)  # sums that reveal an order
    passed_on: set[tuple[Instruction, Root]] = field(default_factory=set)
    getters: dict[Instruction, Any] = field(default_factory=dict)
    records: dict[Instruction, type] = field(default_factory=dict)
    local_classes: dict[Any, tuple[type, Frame]] = field(default_factory=dict)
    defined_in: dict[int, Frame] = field(default_factory=dict)  # their functions, by id

    def __post_init__(self) -> None:
        self.program = self.universe  # without the classes that the function defines
        self.heap = self.found.heap

    @property
    def progress(self) -> int:
        """A number that grows with everything learnt."""
        return self.growth + self.heap.version

    @abstractmethod
    def call(self, callee: Value, args: Arguments, here: Here) -> Value:
        """Return the result of a call, and record its effects."""

    @abstractmethod
    def call_function(
        self, function: FunctionType | Closure, args: Arguments, here: Here
    ) -> Value:
        """Follow a call into a user's function."""

    @abstractmethod
    def call_generator(self, closure: Closure, source: Value, here: Here) -> Value:
        """Return the value of a generator expression."""
