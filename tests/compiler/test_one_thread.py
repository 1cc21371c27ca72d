"""What is no reason for a whole program to run as one thread."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import logging
import pickle
import sqlite3
import string

import pytest

import anabranch as ab

PRICES = list(range(10))  # nobody writes it
RESULTS: list[int] = []


def numbers():
    return ab.from_iterable(list(range(100)), int)


def triple(n: int) -> int:
    return n * 3


def price(n) -> int:
    return PRICES[n % 10]


def read_file(n):
    with open(f"{n}.txt") as file:  # noqa: PTH123 - as many a user writes it
        return len(file.read())


def log(n):
    logging.getLogger(__name__).info("%s", n)
    return n


def import_late(n):
    import wave

    return wave.open(n).getnframes()


class Stores(ab.Operator):
    def setup(self):
        self.connection = sqlite3.connect(":memory:")

    def process(self, n):
        self.connection.cursor().execute("select ?", (n,))
        yield n


WITH_PACKAGES = {
    "a file": lambda s: s.map(read_file),
    "a log": lambda s: s.map(log).map(triple).map(log),
    "an import": lambda s: s.map(import_late),
    "a database": lambda s: s.apply(Stores),
}


@pytest.mark.parametrize("apply", WITH_PACKAGES.values(), ids=WITH_PACKAGES)
def test_what_a_package_does_holds_up_nobody_else(apply):
    s = apply(numbers()).map(price, name="price")
    plan = ab.compile(s.for_each(RESULTS.append), on="local").plan

    assert ("", ()) == (plan.one_thread, plan.together)
    assert any(region.operators[-1] == "price" for region in plan.regions)


UNSEEN = {"RESULTS": RESULTS}  # with code that was made from texts
exec(
    """
def keep(n):
    RESULTS.append(n)
    return n

class Keeps:
    def __call__(self, n):
        RESULTS.append(n)
        return n
""",
    UNSEEN,
)


def call_unseen(n):
    return UNSEEN["keep"](n) + 0


MADE_FROM_TEXT = {
    "a function": UNSEEN["keep"],
    "a lambda": eval("lambda n: RESULTS.append(n) or n"),
    "an object": UNSEEN["Keeps"](),
    "one that another calls": call_unseen,
}


def count_results(n):
    return len(RESULTS)


@pytest.mark.parametrize("keep", MADE_FROM_TEXT.values(), ids=MADE_FROM_TEXT)
def test_code_that_was_made_from_a_text_may_write_what_others_read(keep):
    RESULTS.clear()
    s = numbers()
    kept, counts = s.map(keep).to_list(), s.map(count_results).to_list()

    ab.run(kept, counts, on="local", degree=3, verify="off")

    assert [*range(1, 101)] == counts.items


class Reduced:
    def __reduce__(self):
        RESULTS.append(0)
        return int, ()


class Shown:
    @property
    def number(self):
        RESULTS.append(0)
        return 1


class Counts(contextlib.ContextDecorator):
    def __enter__(self):
        RESULTS.append(0)

    def __exit__(self, *_):
        pass


@Counts()
def counted(n):
    return n


class Formats(string.Formatter):
    def get_value(self, key, args, kwargs):
        RESULTS.append(0)
        return super().get_value(key, args, kwargs)


class Visits(ast.NodeVisitor):
    def visit_Name(self, _):
        RESULTS.append(0)


class Parts:
    def add(self, _, n):
        RESULTS.append(n)
        return n

    add_nothing = functools.partialmethod(add, None)


def write_by_frame(n):
    inspect.currentframe().f_globals["RESULTS"].append(n)


CALLED_BACK = {
    "a method of the package's class": lambda n: Formats().format("{0}", n),
    "a visitor of the package's class": lambda _: Visits().visit(ast.parse("a")),
    "a method with a part of its arguments": lambda n: Parts().add_nothing(n),
    "a frame": write_by_frame,
    "a class that is pickled": lambda _: pickle.dumps(Reduced()),
    "an object whose properties are read": lambda _: inspect.getmembers(Shown()),
    "a decorator of a package": counted,
    "a method that is taken from a class": lambda n: type(RESULTS).append(RESULTS, n),
}


@pytest.mark.parametrize("write", CALLED_BACK.values(), ids=CALLED_BACK)
def test_a_package_may_call_methods_of_what_it_is_given(write):
    s = numbers()
    written, counts = s.map(write, name="write"), s.map(count_results, name="count")
    plan = ab.compile(written.to_list(), counts.to_list(), on="spark").plan

    assert "count reads RESULTS, which write may change" in plan.one_thread
