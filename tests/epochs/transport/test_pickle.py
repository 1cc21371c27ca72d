"""Instances of a program's classes keep their class and their value."""

import functools
import io
import math
import struct
import subprocess
import sys
import threading
from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional, get_args, get_type_hints

import cloudpickle
import numpy as np
import pytest

import anabranch as ab
from anabranch.epochs.transport.pickle import (
    Originals,
    Pickler,
    ValuePickler,
    _object_of,
)
from anabranch.errors import EngineError
from anabranch.graph.graph import Graph
from anabranch.language.drafts import build_graph
from anabranch.runtime.state import HeldColumn, HeldItems


def test_local_classes_come_back_as_themselves():
    class Item(NamedTuple):
        n: int

    @dataclass(frozen=True)
    class Other:
        item: Item

    class Count(ab.Operator):
        def setup(self):
            self.seen = deque([Item(1)])

        def process(self, item):
            yield Other(item)

    source = ab.from_iterable([Item(1)], Item).apply(Count, type=Other)
    pickler = Pickler(build_graph([source.to_list()]))
    instance = Count()
    instance.setup()

    item, other, found = pickler.loads(
        pickler.dumps((Item(3), Other(Item(4)), instance))
    )

    assert (Item, Item(3)) == (type(item), item)
    assert (Other, Other(Item(4))) == (type(other), other)
    assert Count is type(found)
    assert deque([Item(1)]) == found.seen


@pytest.mark.parametrize(
    "value", [[1, 1.0, True], {"a": {1, 2}}, 10**30, b"\0", (None, "\ud800")]
)
def test_plain_values_come_back_with_their_types(value):
    pickler = Pickler(build_graph([ab.from_iterable([]).to_list()]))

    assert repr(value) == repr(pickler.loads(pickler.dumps(value)))


def test_arrays_stay_arrays():
    pickler = Pickler(build_graph([ab.from_iterable([]).to_list()]))

    found = pickler.loads(pickler.dumps([np.arange(3)]))

    assert isinstance(found[0], np.ndarray)
    assert [0, 1, 2] == found[0].tolist()


class RefusedError(Exception):
    def __init__(self, item, code):
        super().__init__(f"{item} is refused")
        self.code = code


class LostError(OSError):
    def __init__(self, path):
        super().__init__(2, "is lost", path)


@pytest.fixture
def pickler():
    return Pickler(build_graph([ab.from_iterable([]).to_list()]))


def test_an_exception_comes_back_whatever_its_constructor_asks_for(pickler):
    refused, lost = pickler.loads(
        pickler.dumps([RefusedError(7, code=3), LostError("a.csv")])
    )

    assert ("7 is refused", 3) == (str(refused), refused.code)
    assert (2, "a.csv") == (lost.errno, lost.filename)


def test_a_local_class_keeps_its_methods_where_it_comes_from(pickler):
    """
    What comes back by value does not replace the functions of the class that is here.
    """

    class Local:
        def name(self):
            return "here"

    method = Local.name
    found = pickler.loads(pickler.dumps(Local()))

    assert Local is type(found)
    assert method is Local.name


def test_what_cannot_travel_is_an_error_in_words(pickler):
    with pytest.raises(EngineError, match="must be able to travel between processes"):
        pickler.dumps([threading.Lock()])


def test_a_function_with_a_cache_is_one_function_and_refers_to_itself(pickler):
    @functools.lru_cache(maxsize=7)
    def count(n):
        return n if n == 0 else 1 + count(n - 1)

    one, two = pickler.loads(pickler.dumps([count, count]))

    assert one is two
    assert 5 == one(5)
    assert 7 == one.cache_parameters()["maxsize"]
    assert 6 == one.cache_info().currsize


def test_a_function_that_dispatches_by_type_refers_to_itself(pickler):
    @functools.singledispatch
    def total(value):
        return value

    @total.register(list)
    def _(values):
        return sum(map(total, values))

    one, two = pickler.loads(pickler.dumps([total, total]))

    assert one is two
    assert 6 == one([1, [2, 3]])
    assert "total" == one.__name__


class City:
    def __init__(self, name):
        self.name = name


def test_functions_that_share_a_variable_share_it_elsewhere(pickler):
    count = 0

    def add():
        nonlocal count
        count += 1

    def add_and_look():
        add()
        return count

    again = pickler.loads(pickler.dumps(add_and_look))

    assert [1, 2] == [again(), again()]
    assert 0 == count


def test_an_object_that_equals_itself_alone_comes_back_as_itself():
    graph = build_graph([ab.from_iterable([]).to_list()])
    driver = Pickler(graph, originals=Originals.of_driver())
    one, two = Pickler(graph), Pickler(graph)
    rome, oslo = City("Rome"), City("Oslo")

    there = one.loads(driver.dumps([rome, oslo, rome]))
    further = two.loads(one.dumps([*there, City("Bern")]))
    back = driver.loads(two.dumps([[city] for city in further]))

    assert ["Rome", "Oslo", "Rome", "Bern"] == [city.name for (city,) in back]
    assert [rome, oslo, rome] == [city for (city,) in back[:3]]  # no other is equal
    assert there[0] is not rome


def test_a_copy_that_was_changed_does_not_come_back_as_the_object():
    graph = build_graph([ab.from_iterable([]).to_list()])
    driver, worker = Pickler(graph, originals=Originals.of_driver()), Pickler(graph)
    cities = [City(["Rome"]), City(["Oslo"])]

    first, second = worker.loads(driver.dumps(cities))
    first.name.append("changed inside")
    found, same = driver.loads(worker.dumps([first, second]))

    assert ["Rome", "changed inside"] == found.name
    assert ["Rome"] == cities[0].name
    assert cities[1] is same


def test_an_object_of_an_earlier_driver_is_another_one():
    graph = build_graph([ab.from_iterable([]).to_list()])
    before = Pickler(graph, originals=Originals.of_driver())
    now = Pickler(graph, originals=Originals.of_driver())
    rome, oslo = City("Rome"), City("Oslo")
    now.dumps(oslo)  # the first to leave, as Rome was

    found = now.loads(before.dumps(rome))

    assert "Rome" == found.name


def test_a_tuple_keeps_the_attributes_beside_its_values(pickler):
    class Base(NamedTuple):
        n: int

    class Noted(Base):
        def __new__(cls, n, remark):
            made = super().__new__(cls, n)
            made.remark = remark
            return made

    found = pickler.loads(pickler.dumps(Noted(1, "kept")))

    assert (1, "kept") == (found.n, found.remark)


def _computed(base, compute):
    """Return a subclass whose constructor computes the value."""

    class Computed(base):
        def __new__(cls, given):
            made = super().__new__(cls, compute(given))
            made.given = given
            return made

    return Computed


@pytest.mark.parametrize(
    ("base", "compute", "given"),
    [
        (str, lambda text: text + "!", "a"),
        (int, lambda n: n + 1, 1),
        (float, lambda x: x * 2, 1.5),
        (bytes, lambda data: data * 2, b"a"),
        (tuple, lambda one: (one, one), 1),
    ],
)
def test_a_value_is_not_computed_again(pickler, base, compute, given):
    value = _computed(base, compute)(given)

    found = pickler.loads(pickler.dumps(value))

    assert (compute(given), given) == (found, found.given)
    assert type(value) is type(found)


class Held(NamedTuple):
    n: int
    name: str
    parts: list[int]


def test_what_a_window_holds_comes_back_as_it_was():
    pickler = Pickler(build_graph([ab.from_iterable([], Held).to_list()]))
    shared = [1, 2]
    items = [Held(1, "a", shared), Held(2, "b", shared), Held(3, "a", [])]

    key, state = pickler.loads(pickler.dumps_entry("k", items))

    assert ("k", items) == (key, state)
    assert [Held] * 3 == list(map(type, state))
    assert state[0].parts is state[1].parts
    assert state[0].parts is not state[2].parts


class Reading(NamedTuple):
    n: int
    name: str
    x: float
    more: str | None


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("key", ["k", 7, ("k", -1.5), (1, (2, 3)), "é" * 300])
def test_what_kernels_hold_comes_back_as_items(key, plain, lasting):
    graph = build_graph([ab.from_iterable([], Reading).to_list()])
    pickler = Pickler(graph, lasting=lasting)
    columns = (
        HeldColumn("q", struct.pack("<2q", 1, -(2**62)), 2),
        HeldColumn("same", "k", 2),
        HeldColumn("d", struct.pack("<2d", -0.0, math.inf), 2),
        HeldColumn("listed", (None, "k"), 2),
    )

    found = pickler.loads(pickler.dumps_entry(key, HeldItems(Reading, columns, plain)))

    items = [Reading(1, "k", -0.0, None), Reading(-(2**62), "k", math.inf, "k")]
    assert repr((key, items)) == repr(found)
    assert [Reading] * 2 == list(map(type, found[1]))


@pytest.mark.parametrize(
    "state", [[], [1, 2], [(1, 2)], [Held(1, "a", []), None], {"a": 1}, Held(1, "", [])]
)
def test_other_states_come_back_as_they_were(state):
    pickler = Pickler(build_graph([ab.from_iterable([], Held).to_list()]))

    assert ("k", state) == pickler.loads(pickler.dumps_entry("k", state))


@dataclass
class Branch:
    value: int
    left: Optional["Branch"] = None


def send_by_value(value, shown, home=__name__):
    """Return what another process prints of `one`, which gets its class by value."""
    cloudpickle.register_pickle_by_value(sys.modules[home])
    try:
        sent = Pickler(build_graph([ab.from_iterable([1]).to_list()])).dumps(value)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[home])
    script = (
        "import sys, pickle\n"
        "from anabranch.epochs.transport.pickle import Pickler\n"
        "from anabranch.language.drafts import build_graph\n"
        "import anabranch as ab\n"
        "pickler = Pickler(build_graph([ab.from_iterable([1]).to_list()]))\n"
        "one = pickler.loads(sys.stdin.buffer.read())\n"
        f"print({shown})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input=sent, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def test_an_annotation_that_names_the_class_around_it_goes_by_value():
    """Python keeps in the annotation what it stands for, once somebody has asked."""
    assert Branch == get_args(get_type_hints(Branch)["left"])[0]
    named = get_args(Branch.__annotations__["left"])[0]

    assert "2" == send_by_value((named, Branch), "one[1](1, one[1](2)).left.value")


class InSlots:
    __slots__ = ("__step", "total")

    def __init__(self):
        self.__step = 1
        self.total = 0

    def add(self, number):
        self.total += number * self.__step
        return self.total


def test_a_class_with_slots_that_goes_by_value_has_them_still():
    """A worker that gets the class has its instances without a dictionary, as here."""
    assert "3 False" == send_by_value(InSlots(), "one.add(3), hasattr(one, '__dict__')")


def arrays_with_gaps():
    table = np.random.default_rng(3).normal(size=(101, 7)) * 1e3
    solid = np.random.default_rng(4).normal(size=(9, 8, 6))
    return {
        "a column": table[:, 1],
        "every third, backwards": table[::-3, 2],
        "neighbouring columns": table[:, 1:4],
        "rows in the order of columns": np.asfortranarray(table)[1:],
        "columns as rows": table[:, 1:4].T,
        "upside down": np.flip(table),
        "a solid on its side": solid[:, 1:3].transpose(2, 0, 1)[1:],
        "one row, again and again": np.broadcast_to(table[0], (5, 7))[:, ::2],
        "overlapping windows": np.lib.stride_tricks.sliding_window_view(table[:, 0], 3),
        "halves of complex numbers": (table + 1j).imag,
        "single precision": table.astype("f4")[:, ::2],
        "nothing": table[:0, ::2],
        "objects": np.array([["a", 1], ["b", 2]], object)[:, :1],
    }


SUMS = {
    "sum": np.sum,
    "sums down": lambda array: np.sum(array, axis=0),
    "sums across": lambda array: np.sum(array, axis=-1),
    "product with itself": lambda array: (
        np.dot(array.T, array) if array.ndim < 3 else array
    ),
    "mean of squares": lambda array: np.sum(array * array) / max(1, array.size),
    "order in memory": lambda array: array.ravel(order="K"),
}


@pytest.mark.parametrize("array", arrays_with_gaps().values(), ids=arrays_with_gaps())
def test_an_array_is_added_up_alike_where_it_arrives(array):
    pickler = Pickler(Graph(()))

    copy = pickler.loads(pickler.dumps(array))

    assert np.array_equal(array, copy)
    assert (array.dtype, array.shape) == (copy.dtype, copy.shape)
    assert array.flags.writeable == copy.flags.writeable
    if array.dtype != object:
        for name, add_up in SUMS.items():
            assert add_up(array).tobytes() == add_up(copy).tobytes(), name


def test_an_array_with_large_gaps_is_sent_without_them():
    column = np.zeros((1_000, 1_000))[:, 0]
    pickler = Pickler(Graph(()))

    sent = pickler.dumps(column)
    copy = pickler.loads(sent)

    assert len(sent) < 10_000
    assert 16 == copy.strides[0]


class Child:
    def __init__(self, parent):
        self.parent = parent


class Reaching(ab.Operator):
    """An operator whose attributes reach it in several ways."""

    n = 0  # defaults of the class hide that the attributes are gone
    hook: Any = None

    def setup(self):
        self.n = 41
        self.hook = self.add

    def process(self, item):
        return []

    def add(self):
        self.n += 1
        return self.n

    def process_one(self):
        return Reaching.add(self)

    def step(self, _):
        return Reaching.add(self)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.others[name]  # as endless as it gets before there are `others`


class Hiding(Reaching):
    def add(self):
        raise AssertionError


class OfArguments(Hiding):
    def __new__(cls, *, wanted):
        return super().__new__(cls)


class WithSlots(Hiding):
    __slots__ = ("hook",)


class WithOwnPickling(Hiding):
    def __getstate__(self):
        return {"n": 0}

    def __setstate__(self, state):
        raise AssertionError

    def __reduce__(self):
        raise AssertionError


WAYS = {
    "a bound method": lambda op: op.process_one,
    "a method that is hidden": lambda op: super(Hiding, op).add,
    "a lambda": lambda op: lambda: (op, op.process_one())[1],
    "a partial": lambda op: functools.partial(Reaching.add, op),
    "an iterator": lambda op: map(op.step, range(9)).__next__,
    "an endless iterator": lambda op: iter(op.process_one, 0).__next__,
}


@pytest.mark.parametrize("kind", [Hiding, OfArguments, WithSlots, WithOwnPickling])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_operator_that_reaches_itself_keeps_all_attributes(kind, way):
    sinks = [ab.from_iterable([]).apply(kind).to_list()]
    pickler = Pickler(build_graph(sinks), lasting=True)
    one = object.__new__(kind)
    one.setup()
    one.hook, one.child, one.table = way(one), Child(one), {"self": one}

    key, again = pickler.loads(pickler.dumps_entry("k", one))

    assert ("k", kind, 41) == (key, type(again), again.n)
    assert again.child.parent is again
    assert again.table["self"] is again
    assert [42, 43] == [again.hook(), again.hook()]
    assert (43, 41) == (again.n, one.n)


def test_an_object_stored_whole_by_an_earlier_release_is_read():
    sinks = [ab.from_iterable([]).apply(Reaching).to_list()]
    pickler = Pickler(build_graph(sinks))

    class Stored:
        def __reduce__(self):
            return _object_of, (Reaching, {"n": 7})

    buffer = io.BytesIO()
    ValuePickler(buffer, pickler.names, checked=False).dump(Stored())
    found = pickler.loads(buffer.getvalue())

    assert (Reaching, 7) == (type(found), found.n)


def test_a_compiled_format_goes_by_its_text(pickler):
    """`struct.Struct` says nothing of pickling itself."""
    made = pickler.loads(pickler.dumps(struct.Struct("<hB")))

    assert b"\x01\x00\x02" == made.pack(1, 2)
