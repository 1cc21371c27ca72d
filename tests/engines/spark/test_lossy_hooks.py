"""Classes of the user's whose pickling loses what a function reads: told, never silent."""

import copyreg
import functools
import threading

import pytest

import anabranch as ab
from anabranch.errors import EngineError
from tests.engines.spark.imitation import undisturbed


class Reset:
    extra = 0

    def __init__(self, n):
        self.n, self.extra = n, n + 10

    def __getstate__(self):
        return {"n": self.n}

    def __setstate__(self, state):
        self.n = state["n"]


class Text(str):  # noqa: SLOT000 - it has attributes
    mark = 0

    def __reduce__(self):
        return Text, (str(self),)


class Level(int):
    label = ""

    def __reduce_ex__(self, protocol):
        return Level, (int(self),)


class Slotted:
    __slots__ = ("extra", "n")

    def __init__(self, n):
        self.n, self.extra = n, n + 10

    def __getstate__(self):
        return None, {"n": self.n, "extra": 0}


class Rounded(float):
    def __reduce__(self):
        return Rounded, (round(self),)


class Listed(list):
    def __reduce__(self):
        return Listed, (self[:1],)


class Registered:
    def __init__(self, n, extra=10):
        self.n, self.extra = n, extra


copyreg.pickle(Registered, lambda one: (Registered, (one.n, 0)))


class Private:
    __secret = 0

    def __init__(self, n):
        self.__secret = n

    def __getstate__(self):
        return {}

    def __setstate__(self, state):
        pass

    def tell(self):
        return self.__secret


class Tidy:
    """Leaves out what nobody reads, or what follows from the rest."""

    def __init__(self, n):
        self.n, self.unread_cache, self.lock = n, {"n": n}, threading.Lock()

    def __getstate__(self):
        return {"n": self.n}

    def __setstate__(self, state):
        self.n, self.unread_cache, self.lock = state["n"], None, threading.Lock()

    @functools.cached_property
    def double(self):
        with self.lock:
            return 2 * self.n


def labelled(kind, value, **attributes):
    made = kind(value)
    for name, each in attributes.items():
        setattr(made, name, each)
    return made


def keep_reset(state, n):
    state = state or Reset(n)
    return Reset(state.n + 1), (n, state.extra)


def numbers():
    return ab.from_iterable(range(1, 13))


def tidy(n):
    made = Tidy(n)
    return made if made.double else None


LOST = {
    "an item": (
        lambda: ab.from_iterable([*map(Reset, range(9))]).map(lambda x: x.extra),
        "Reset.extra",
    ),
    "an item that a worker makes": (
        lambda: numbers().map(Reset).key_by("n").scan(lambda s, x: (s, x.extra), 0),
        "Reset.extra",
    ),
    "the state of a key": (
        lambda: numbers().key_by(lambda n: n % 3).scan(keep_reset, None),
        "Reset.extra",
    ),
    "the only state": (lambda: numbers().scan(keep_reset, None), "Reset.extra"),
    "a text with a mark": (
        lambda: ab.from_iterable(
            [labelled(Text, f"x{n}", mark=n) for n in range(9)]
        ).map(lambda text: text.mark),
        "Text.mark",
    ),
    "a number with a label": (
        lambda: ab.from_iterable([labelled(Level, n, label="a") for n in range(9)]).map(
            lambda level: level.label
        ),
        "Level.label",
    ),
    "a slot": (
        lambda: ab.from_iterable([*map(Slotted, range(9))]).map(lambda x: x.extra),
        "Slotted.extra",
    ),
    "the value": (
        lambda: ab.from_iterable([Rounded(n + 0.25) for n in range(9)]).map(
            lambda x: x + 1
        ),
        "the value of a Rounded",
    ),
    "the contents": (
        lambda: ab.from_iterable([Listed([n, n]) for n in range(9)]).map(len),
        "the value of a Listed",
    ),
    "a registered function": (
        lambda: ab.from_iterable([*map(Registered, range(9))]).map(lambda x: x.extra),
        "Registered.extra",
    ),
    "a private attribute": (
        lambda: ab.from_iterable([*map(Private, range(9))]).map(lambda x: x.tell()),
        "Private._Private__secret",
    ),
}


@pytest.mark.parametrize("verify", ["sample", "off"])
@pytest.mark.parametrize(("program", "lost"), LOST.values(), ids=LOST)
def test_what_pickling_loses_and_a_function_reads_is_told(
    program, lost, verify, cluster_of
):
    cluster_of(undisturbed)
    out = program().to_list()

    with pytest.raises(
        EngineError, match=f"{lost} is not the same in a .*copy"
    ) as told:
        ab.run(out, on="spark", degree=2, epoch_items=4, verify=verify)

    assert "test_lossy_hooks.py:" in str(told.value)
    assert [] == out.items


@pytest.mark.parametrize("verify", ["sample", "off"])
def test_what_nobody_reads_or_follows_from_the_rest_may_be_left_out(verify, cluster_of):
    expected, out = (
        numbers()
        .map(tidy)
        .key_by("n")
        .scan(lambda s, x: (s + 1, x.double), 0)
        .to_list()
        for _ in range(2)
    )
    ab.run(expected, on="sequential")
    cluster_of(undisturbed)

    ab.run(out, on="spark", degree=2, epoch_items=4, verify=verify)

    assert expected.items == out.items


LIMIT, SPARE = Reset(5), Tidy(5)


@pytest.mark.spark
def test_an_object_that_a_function_holds_on_to_is_told():
    out = numbers().map(lambda n: n + LIMIT.extra, name="over").to_list()

    with pytest.raises(
        EngineError, match=r"over must be.*Reset\.extra is not the same"
    ):
        ab.run(out, on="spark", degree=2, verify="off")


@pytest.mark.spark
def test_an_object_that_a_function_holds_on_to_may_leave_out_what_nobody_reads():
    out = numbers().map(lambda n: (n + SPARE.n, Tidy(n))).key_by(len)
    out = out.scan(lambda s, pair: (s, pair[0]), 0).to_list()

    ab.run(out, on="spark", degree=2, verify="off")

    assert [n + 5 for n in range(1, 13)] == out.items
