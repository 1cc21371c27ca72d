"""Which attributes count as forwarded, by the function."""

import dataclasses
from dataclasses import InitVar, dataclass, field
from typing import NamedTuple

import pytest

from anabranch.python.forwards import Outputs
from anabranch.python.lower import lower_callable


class Item(NamedTuple):
    a: int
    b: int
    c: int


class Pair(NamedTuple):
    a: int
    b: int


def renamed(item):
    other = item
    return Pair(other.a, b=other.b)


def assigned_twice(item):
    a = item.a
    a = a + 1
    return Pair(a, item.b)


def unpacked(item):
    a, b, _ = item
    return Pair(a, b)


def assigned_to_itself(item):
    while item.c:
        a = a  # noqa: F821, PLW0127
    return Pair(a, item.b)


def or_none(item):
    if item.a:
        return None
    return Pair(item.a, item.b)


def of_a_case(item):
    match item.c:
        case 1:
            return Pair(item.a, item.b)
        case _:
            return item._replace(b=2)


def on_one_path(item):
    if item.a:
        return item
    return Pair(item.a, 0)


CHANGED = {"b": 1}
CASES = {
    "the item itself": (lambda item: item, None),
    "by position": (lambda item: Pair(item.a, item.c), {"a"}),
    "by keyword": (lambda item: Pair(b=item.b, a=0), {"b"}),
    "swapped": (lambda item: Pair(item.b, item.a), set()),
    "all but what is replaced": (lambda item: item._replace(b=0), {"a", "c"}),
    "replaced by itself": (lambda item: item._replace(b=item.b), {"a", "b", "c"}),
    "replaced from a mapping": (lambda item: item._replace(**CHANGED), set()),
    "a choice forwards what both do": (
        lambda item: Pair(item.a, item.b) if item.c else Pair(item.a, 0),
        {"a"},
    ),
    "computed": (lambda item: Pair(item.a + 0, item.b), {"b"}),
    "assigned to itself": (assigned_to_itself, {"b"}),
    "nothing is said of None": (or_none, {"a", "b"}),
    "in every case of a match": (of_a_case, {"a"}),
    "a number": (lambda item: item.a, set()),
    "through another name": (renamed, {"a", "b"}),
    "a name that is assigned twice": (assigned_twice, {"b"}),
    "unpacking": (unpacked, {"a", "b"}),
    "two returns": (on_one_path, {"a"}),
}


@pytest.mark.parametrize(("function", "kept"), CASES.values(), ids=CASES)
def test_of_result(function, kept):
    source = lower_callable(function)
    outputs = Outputs(source.code, source.function, {"item": "item"}, Item)

    assert kept == outputs.of_result()


@dataclass
class Order:
    a: int
    b: int
    c: int = 0


@dataclass(frozen=True)
class Derived:
    a: int
    b: int = field(init=False, default=0)

    def __post_init__(self):
        object.__setattr__(self, "b", self.a % 4)


@dataclass(frozen=True)
class Default:
    a: int
    b: int = field(init=False, default=0)


@dataclass
class Hooked:
    a: int
    b: int

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value + 1)


@dataclass
class OwnInit:
    a: int
    b: int

    def __init__(self, a, b):
        self.a, self.b = b, a


@dataclass
class OwnNew:
    a: int
    b: int

    def __new__(cls, a, b):
        return object.__new__(cls)


@dataclass(init=False)
class Inherits(Order):
    d: int = 0


class Rounded:
    def __get__(self, obj, kind=None):
        return 0 if obj is None else vars(obj)["a"]

    def __set__(self, obj, value):
        vars(obj)["a"] = value // 10


@dataclass
class Described:
    b: int
    a: int = Rounded()


class Doubling(type):
    def __call__(cls, a, b):
        return super().__call__(a * 2, b)


@dataclass
class Meta(metaclass=Doubling):
    a: int
    b: int


@dataclass
class Scaled:
    a: int
    scale: InitVar[int]
    b: int


@dataclass
class KeywordOnly:
    c: int = field(kw_only=True)
    a: int = 0
    b: int = 0


@dataclass
class Swapping:
    a: int
    b: int

    def __iter__(self):
        return iter((self.b, self.a))


class Triple(NamedTuple):
    a: int
    b: int
    c: int


class OwnReplace(Triple):
    def _replace(self, **changes):
        return OwnReplace(self.b, self.a, self.c)


class OwnMake(Triple):
    @classmethod
    def _make(cls, values):
        a, b, c = values
        return cls(b, a, c)


class OwnIter(Triple):
    def __iter__(self):
        return iter((self.b, self.a, self.c))


class Base(NamedTuple):
    a: int
    b: int


class Below(Base):
    @property
    def a(self):
        return self[1]


@dataclass
class Parent:
    a: int
    b: int


@dataclass
class Child(Parent):
    def __post_init__(self):
        self.a = self.b


EXECUTED = {"dataclass": dataclass}
exec(
    "@dataclass\nclass Executed:\n    a: int\n    b: int\n"
    "    def __init__(self, a, b): self.a, self.b = b, a\n",
    EXECUTED,
)
Executed = EXECUTED["Executed"]


def replaced_then_changed(item):
    made = dataclasses.replace(item, c=1)
    made.a = made.b
    return made


def replaced_then_read(item):
    made = dataclasses.replace(item, c=1)
    return made if (made,) else made.a


def replaced_then_given_back(item):
    made = dataclasses.replace(item, c=1)
    if made.b > 3:
        return made
    return item


def unpacked_pair(item):
    a, b = item
    return Pair(a, b)


REPLACED = {
    "a dataclass": (Order, lambda item: dataclasses.replace(item, c=1), {"a", "b"}),
    "a field that is computed": (
        Derived,
        lambda item: dataclasses.replace(item, a=1),
        set(),
    ),
    "a field that is not copied": (
        Default,
        lambda item: dataclasses.replace(item, a=item.a),
        {"a"},
    ),
    "a setter": (Hooked, lambda item: dataclasses.replace(item, b=1), set()),
    "an own __init__": (OwnInit, lambda item: dataclasses.replace(item, b=1), set()),
    "an own __new__": (OwnNew, lambda item: dataclasses.replace(item, b=1), set()),
    "an inherited __init__": (
        Inherits,
        lambda item: dataclasses.replace(item, b=1),
        {"a", "c"},
    ),
    "a descriptor": (
        Described,
        lambda item: dataclasses.replace(item, b=item.b),
        set(),
    ),
    "a metaclass": (Meta, lambda item: dataclasses.replace(item, b=item.b), set()),
    "a subclass": (Parent, lambda item: dataclasses.replace(item, b=1), set()),
    "code without a file": (
        Executed,
        lambda item: dataclasses.replace(item, b=1),
        set(),
    ),
    "changed later": (Order, replaced_then_changed, set()),
    "given back in two places": (Order, replaced_then_read, set()),
    "given back in one place": (Order, replaced_then_given_back, {"a", "b"}),
    "an own _replace": (OwnReplace, lambda item: item._replace(c=1), set()),
    "an own _make": (OwnMake, lambda item: item._replace(c=1), set()),
    "an own __iter__": (OwnIter, lambda item: item._replace(c=1), set()),
    "_replace of a superclass": (Triple, lambda item: item._replace(c=1), set()),
    "_replace of no NamedTuple": (Order, lambda item: item._replace(c=1), set()),
    "a property below": (Base, lambda item: item._replace(b=1), set()),
    "unpacking a NamedTuple": (Pair, unpacked_pair, {"a", "b"}),
    "unpacking by an own __iter__": (Swapping, unpacked_pair, set()),
    "unpacking what is below": (Base, unpacked_pair, set()),
}
CONSTRUCTED = {
    "a dataclass": (lambda item: Order(item.a, item.b), {"a", "b"}),
    "computed": (lambda item: Derived(item.a), set()),
    "a setter": (lambda item: Hooked(item.a, item.b), set()),
    "an own __init__": (lambda item: OwnInit(item.a, item.b), set()),
    "an own __new__": (lambda item: OwnNew(item.a, item.b), set()),
    "an inherited __init__": (lambda item: Inherits(item.a, d=item.d), {"a"}),
    "a descriptor": (lambda item: Described(item.b, item.a), set()),
    "a metaclass": (lambda item: Meta(item.a, item.b), set()),
    "a parameter that is no field": (lambda item: Scaled(item.a, item.b, 5), {"a"}),
    "keywords come last": (
        lambda item: KeywordOnly(item.a, item.b, c=item.c),
        {*"abc"},
    ),
    "code without a file": (lambda item: Executed(item.a, item.b), set()),
    "by _make": (lambda item: Pair._make((item.a, item.b)), set()),
    "from a mapping": (lambda item: Pair(**item._asdict()), set()),
}


@pytest.mark.parametrize(
    ("kind", "function", "kept"),
    REPLACED.values(),
    ids=list(REPLACED),
)
def test_only_what_generated_code_copies_is_forwarded(kind, function, kept):
    source = lower_callable(function)
    outputs = Outputs(source.code, source.function, {"item": "item"}, kind)

    assert kept == outputs.of_result()


@pytest.mark.parametrize(
    ("function", "kept"), CONSTRUCTED.values(), ids=list(CONSTRUCTED)
)
def test_only_what_a_generated_constructor_stores_is_forwarded(function, kept):
    source = lower_callable(function)
    outputs = Outputs(source.code, source.function, {"item": "item"}, None)

    assert kept == outputs.of_result()
