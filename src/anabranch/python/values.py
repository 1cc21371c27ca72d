"""What an expression may stand for, and what code does beyond computing a result.

What a name or an expression may stand for, as far as purity is concerned.

A value is the set of objects that it may be. Of each object matters who else can see
it: an object that was made in this call may be changed, the input item and whatever
outlives the call may not. What lies inside of a made object is kept in the `Heap`, by
attribute and by position, so that a captured list does not become our own by being put
into a tuple.
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
KEYS = "[key]"  # of a table: what is gone through, but not what a key gives


@dataclass(frozen=True, slots=True)
class Plain:
    """An immutable value of a builtin type, such as a number or a text."""

    type: type | None = None


@dataclass(frozen=True, slots=True)
class Fresh:
    """An object that was made here, by the instruction with number `site`."""

    site: int
    type: Any = None


class LibraryObject:
    """Stands for the class of an object of Python's or a package's, whichever it is."""


class SomeScalar:
    """Stands for the class of an immutable value of Python's, whichever it is."""


@dataclass(frozen=True, slots=True)
class InputPart:
    """The input item, or anything reached from it; `type` is its annotation."""

    type: Any = None


@dataclass(frozen=True, slots=True)
class SharedPart:
    """Something inside of `target`, an object that outlives the call."""

    text: str
    target: int = 0  # its id
    kinds: frozenset[type] | None = None  # of which types it may be, if that is known


class Existing:
    """An object that exists already: a global, a captured variable, a default.

    `variable` is the one that it was read from, if it was.
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
    """A function of the user's, bound to the object that it is a method of."""

    owner: Root
    function: FunctionType


@dataclass(frozen=True, slots=True)
class Method:
    """A method, by name, of an object whose class is not the user's, or not known."""

    owner: Root
    name: str


@dataclass(frozen=True, slots=True)
class Closure:
    """A function that is defined in the function under analysis."""

    made: MakeFunction
    frame: Any  # the Frame it was defined in


@dataclass(frozen=True, slots=True)
class Parent:
    """What `super()` gives in a method of `cls` that is called on `owner`."""

    owner: Root
    cls: type


@dataclass(frozen=True, slots=True)
class Lost:
    """Something that cannot be followed; the effect that says so is recorded.

    It was `made` by a package from what that was given, or is of its making: whoever
    changes it changes nothing else of the program's.
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
    """Return the value that may be any of `values`."""
    return NOTHING.union(*values)


@dataclass
class Arguments:
    """The arguments of a call; `rest` may stand for any parameter."""

    positional: list[Value] = field(default_factory=list)
    keywords: dict[str, Value] = field(default_factory=dict)
    rest: Value = NOTHING

    def all(self) -> Value:
        """Return whatever is passed, by whatever name."""
        return join([*self.positional, *self.keywords.values(), self.rest])


class Heap:
    """What the objects that were made here hold, by attribute or position.

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
        """Return whatever the object may hold."""
        return join(self._fields[site, n] for n in self._names.get(site, ()))

    def values(self, site: int) -> Value:
        """Return whatever the object may hold, but for the keys of a table."""
        names = (n for n in self._names.get(site, ()) if n != KEYS)
        return join(self._fields[site, n] for n in names)

    def elements(self, site: int) -> Value:
        """Return the possible values by index, key or iteration."""
        names = (n for n in self._names.get(site, ()) if n.startswith("["))
        return join(self._fields[site, n] for n in names)


CHANGES_INPUT = "changes the input item"
ANY_NAME = "*"  # of an attribute that is named while the program runs


class Place(NamedTuple):
    """A line of the user's."""

    file: str
    line: int


class Effect(NamedTuple):
    """Something that makes a function unsafe to run in parallel.

    `changes`: it changes an object that outlives the call. `impure`: it depends on, or
    touches, the world outside. `shared`: it reads what the code of an operator changes.
    `unknown`: it cannot be followed. `variable` is what is changed, where that is a
    variable outside the function or the object that it stands for.
    """

    kind: Literal["changes", "impure", "shared", "unknown"]
    text: str
    file: str
    line: int
    variable: StatePlace | None = None


class Read(NamedTuple):
    """A name or attribute that outlives the call was read, and what it stood for.

    `scope` is where the name lives: the globals of a module, the function that encloses
    it, or None for an attribute.
    """

    name: str
    scope: Any
    target: Any
    file: str
    line: int


class Change(NamedTuple):
    """An object that exists already may be changed here; `name` for a global."""

    target: Any
    file: str
    line: int


@dataclass(eq=False)
class Frame:
    """The variables of one function under analysis.

    A variable may be anything that was ever assigned to it. Only in the rest of a block
    is it known what an instruction of that block has assigned: `versions` has, for each
    block that is being executed, the keys of such variables in `variables`. Names that
    inner functions use are left out, since these run later. `function` is the object
    whose globals and cells are in scope.
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
        """Return the possible values of a variable at the present statement."""
        for block in reversed(self.versions):
            if name in block:
                return self.variables.get(block[name], NOTHING)
        return self.variables.get(name, NOTHING)

    def keys_to_join(self, name: str) -> list[Any]:
        """Return under which keys a value may be seen that is assigned now."""
        key: Any = name
        found = [] if self.versions else [key]
        for block in self.versions:
            key = block.get(name, key)
            found.append(key)
        return found

    def replace(self, name: str, step: Instruction) -> list[Any]:
        """Begin a variable anew for the rest of the block; return the keys to join."""
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
    """An instruction that is being followed, in the frame of its function."""

    step: Instruction
    frame: Frame

    @property
    def place(self) -> Place:
        """The line that it stands for."""
        return Place(self.frame.file, self.step.line or self.frame.code.line)

    @property
    def text(self) -> str:
        """The code that it stands for."""
        return self.step.text

    @property
    def callee(self) -> str:
        """The code of what is called, if it is a call."""
        return self.step.callee if isinstance(self.step, Call) else self.step.text

    @property
    def arguments(self) -> list[Instruction | None]:
        """The instructions that gave the arguments, if it is a call."""
        given = self.step.arguments if isinstance(self.step, Call) else ()
        return [self.frame.code.maker_of(each.value) for each in given]


@dataclass
class Findings:
    """Everything that was found out about a function and what it calls."""

    effects: dict[Effect, None] = field(default_factory=dict)
    reads: dict[Any, Read] = field(default_factory=dict)
    changes: dict[int, Change] = field(default_factory=dict)
    touched: dict[int, Read] = field(default_factory=dict)
    opened: set[int] = field(default_factory=set)  # what operators went into, by id
    visited: set[FunctionNode] = field(default_factory=set)
    believed: set[FunctionNode] = field(default_factory=set)  # declared, not visited
    runs_anything: bool = False  # it runs code of the program that nobody looked at
    gives: Arrival = NOBODY  # the types of what it gives
    hands_on: dict[int, Any] = field(default_factory=dict)  # objects that outlive calls
    keeps_nothing: bool = False  # an `Operator` that is as it was after each item
    orders_items: bool = False  # it depends on the order of a set that it is given
    rebinds: dict[tuple[str, int], Place] = field(default_factory=dict)
    resources: dict[str, Place] = field(default_factory=dict)
    writes_anything: Place | None = None  # whatever the program has
    calls_anyone: Place | None = None  # any function of the program
    writes_settings: Place | None = None  # how Decimal rounds and the like
    heap: Heap = field(default_factory=Heap)
    connector: bool = False  # of an own source or sink: only what it shares counts

    def effect(
        self,
        kind: Literal["changes", "impure", "unknown"],
        text: str,
        at: Place,
        variable: StatePlace | None = None,
    ) -> None:
        """Record an effect."""
        self.effects.setdefault(Effect(kind, text, at.file, at.line, variable))

    def change(
        self, target: Any, text: str, at: Place, variable: StatePlace | None = None
    ) -> None:
        """Record that an object which outlives the call is changed."""
        for each in (target, *list_storages(target)):
            old = self.changes.get(id(each))
            if old is None or old.target is None:
                self.changes[id(each)] = Change(each, at.file, at.line)
        self.effect("changes", text, at, variable)

    def change_inside(self, target: int, text: str, at: Place) -> None:
        """Record that something in an object, known by its id, is changed."""
        self.changes.setdefault(target, Change(None, at.file, at.line))
        self.effect("changes", text, at)

    def escape(self, target: Any, at: Place) -> None:
        """Record that code which is not followed may change an object."""
        for each in (target, *list_storages(target)):
            self.changes.setdefault(id(each), Change(each, at.file, at.line))

    def rebind(self, name: str, scope: Any, at: Place) -> None:
        """Record that a name, or an attribute (`scope` is None), is assigned."""
        self.rebinds.setdefault((name, scope_id(scope)), at)

    def touch(self, name: str, target: Any, at: Place) -> None:
        """Record that an object which outlives the call is looked at."""
        self.touched.setdefault(id(target), Read(name, None, target, at.file, at.line))

    def read(self, name: str, scope: Any, target: Any, at: Place) -> None:
        """Record that something which outlives the call is read."""
        self.touch(name, target, at)
        key = (name, scope_id(scope), id(target))
        self.reads.setdefault(key, Read(name, scope, target, at.file, at.line))


def scope_id(scope: Any) -> int:
    """Return the identity of a scope of names; see `Read`."""
    return id(scope[1] if isinstance(scope, tuple) else scope)


@dataclass(eq=False)
class AbstractInterpreter(ABC):
    """What has been learnt about one operator's code, while it is followed."""

    universe: Universe
    found: Findings = field(default_factory=Findings)
    growth: int = 0  # how often a variable gained a possibility
    raised: Value = NOTHING  # exceptions, wherever they were made
    changed_sites: set[int] = field(default_factory=set)  # of objects made here
    opaque_sites: set[int] = field(default_factory=set)  # of which nothing is known
    unordered_sites: set[int] = field(default_factory=set)  # sets made of sets
    rounding: set[Instruction] = field(default_factory=set)  # sums that show an order
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
        """A number that grows with everything that is learnt."""
        return self.growth + self.heap.version

    @abstractmethod
    def call(self, callee: Value, args: Arguments, here: Here) -> Value:
        """Return the result of a call, and record its effects."""

    @abstractmethod
    def call_function(
        self, function: FunctionType | Closure, args: Arguments, here: Here
    ) -> Value:
        """Follow a call into a function whose source is the user's."""

    @abstractmethod
    def call_generator(self, closure: Closure, source: Value, here: Here) -> Value:
        """Return the value of a generator expression."""
