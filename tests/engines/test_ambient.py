"""Every engine runs a program with the settings of the thread that started it."""

from __future__ import annotations

import calendar
import copy
import copyreg
import csv
import decimal
import gettext
import locale
import logging
import mimetypes
import os
import sys
import threading
import time
import warnings
import xml.etree.ElementTree as ET
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

import anabranch as ab


class Number(NamedTuple):
    group: int
    value: int


NUMBERS = [Number(n % 3, n) for n in range(1, 31)]
SEVENTHS = [
    *("0.14286", "0.28571", "0.42857", "0.57143", "0.71429", "0.85714", "1"),
    *("1.1429", "1.2857", "1.4286"),
]


def seventh(number: Number) -> str:
    return str(decimal.Decimal(number.value) / 7)


def count_up(total, number):
    return total + 1, (number.value, str(decimal.Decimal(number.value) / 7))


def generate_sevenths():
    for number in NUMBERS:
        yield seventh(number)


class Sevenths(ab.Operator):
    def process(self, number):
        yield seventh(number)

    def finish(self):
        yield str(decimal.Decimal(2) / 7)


def logarithm(number: Number) -> float:
    return float(np.log(np.float64(number.value - 30)))


def describe_process(number: Number) -> tuple[str, str, int, int]:
    return (
        datetime.fromtimestamp(number.value).isoformat(),  # noqa: DTZ006 - it is meant
        str(np.array([number.value / 7])),
        len(str(10 ** (5000 + number.value))),
        sys.getrecursionlimit() if number.value > 1000 else 0,
    )


@pytest.fixture
def five_digits():
    with decimal.localcontext(decimal.Context(prec=5)):
        yield


ENGINES = [("sequential", {}), ("local", {"degree": 1}), ("local", {"degree": 3})]


@pytest.mark.parametrize(("on", "options"), ENGINES)
@pytest.mark.usefixtures("five_digits")
def test_decimals_are_rounded_as_where_the_program_was_started(on, options):
    numbers = ab.from_iterable(NUMBERS, Number)
    mapped = numbers.map(seventh).to_list()
    keyed = numbers.key_by("group").scan(count_up, 0).to_list()
    applied = numbers.apply(Sevenths).to_list()
    generated = ab.generate(generate_sevenths).to_list()

    ab.run(mapped, keyed, applied, generated, on=on, **options)

    assert SEVENTHS == mapped.items[:10]
    assert SEVENTHS == [text for _, text in keyed.items[:10]]
    assert [*SEVENTHS, "0.28571"] == applied.items[:10] + applied.items[-1:]
    assert SEVENTHS == generated.items[:10]


@pytest.mark.parametrize(("on", "options"), ENGINES)
def test_numpy_raises_where_it_was_told_to(on, options):
    seen = []
    out = ab.from_iterable(NUMBERS, Number).map(logarithm).to_list()

    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ab.run(out, on=on, on_error=ab.dead_letter(seen.append), **options)

    assert [] == out.items
    assert 30 == len(seen)


@pytest.mark.usefixtures("five_digits")
def test_decimals_are_rounded_so_after_a_change_too():
    numbers = ab.generate(lambda: iter(NUMBERS * 50), Number)
    out = numbers.map(seventh).filter(len).to_list()
    job = ab.start(out, on="local", degree=2)
    job.wait()

    assert SEVENTHS == out.items[:10]
    assert SEVENTHS == out.items[-30:-20]


@pytest.mark.usefixtures("five_digits")
def test_testing_outputs_are_rounded_so_too():
    assert SEVENTHS == ab.testing.outputs(ab.from_iterable(NUMBERS).map(seventh))[:10]


@pytest.mark.spark
@pytest.mark.usefixtures("five_digits")
def test_workers_have_the_settings_of_the_program(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    digits, options = sys.get_int_max_str_digits(), np.get_printoptions()
    sys.set_int_max_str_digits(0)
    np.set_printoptions(precision=2)
    numbers = ab.from_iterable(NUMBERS, Number)
    sevenths, processes = numbers.map(seventh), numbers.map(describe_process)
    out, told, logs = sevenths.to_list(), processes.to_list(), []
    try:
        with np.errstate(all="raise"), warnings.catch_warnings():
            warnings.simplefilter("error")
            logarithms = numbers.map(logarithm).to_list()
            ab.run(
                *(out, told, logarithms),
                degree=2,
                on_error=ab.dead_letter(logs.append),
            )
    finally:
        sys.set_int_max_str_digits(digits)
        np.set_printoptions(**options)
        monkeypatch.undo()
        time.tzset()

    assert SEVENTHS == out.items[:10]
    assert ("1970-01-01T09:00:01", "[0.14]", 5002, 0) == told.items[0]
    assert 30 == len(logs)
    assert "Asia/Tokyo" != os.environ.get("TZ")


HERE = threading.local()


class Coin:
    def __init__(self, cents):
        self.cents = cents


def double(cents):
    return Coin(2 * cents)


@ab.declare(state="stateless")
def see_csv(n: int) -> list[str] | str:
    try:
        return next(csv.reader(["1234567;1"], "mine"))
    except csv.Error:
        return "too long"


@ab.declare(state="stateless")
def see_mimetype(n: int) -> str | None:
    return mimetypes.guess_type("a.mine")[0]


@ab.declare(state="stateless")
def see_prefix(n: int) -> bytes:
    return ET.tostring(ET.Element("{urn:mine}a"))


@ab.declare(state="stateless")
def see_week(n: int) -> int:
    return calendar.firstweekday()


@ab.declare(state="stateless")
def see_arguments(n: int) -> list[str]:
    return sys.argv[1:]


@ab.declare(state="stateless")
def see_level(n: int) -> tuple[bool, str]:
    mine = logging.getLogger("mine.own")
    return mine.isEnabledFor(logging.DEBUG), logging.getLevelName(27)


@ab.declare(state="stateless")
def see_translation(n: int) -> tuple[str, str | None]:
    return gettext.textdomain(), gettext.bindtextdomain("mine")


@ab.declare(state="stateless")
def see_pandas(n: int) -> str:
    return str(pd.Series([1 / 7])).split()[1]


@ab.declare(state="stateless")
def see_copy(n: int) -> int:
    return copy.copy(Coin(4)).cents


@ab.declare(state="stateless")
def see_context(n: int) -> tuple[int, int]:
    return decimal.Context().prec, decimal.ExtendedContext.prec


@ab.declare(state="stateless")
def see_recursion(n: int) -> int:
    return sys.getrecursionlimit()


@ab.declare(state="stateless")
def see_digits(n: int) -> int:
    return len(str(10**4999))


@ab.declare(state="stateless")
def see_numpy(n: int) -> str:
    return str(np.array([1 / 7]))


@ab.declare(state="stateless")
def see_locale(n: int) -> str:
    return locale.setlocale(locale.LC_NUMERIC)


@ab.declare(state="stateless")
def see_variables(n: int) -> tuple[str | None, ...]:
    return tuple(map(os.environ.get, ("MY_RATE", "PATH_TO_MINE", "USER_RATE")))


def see_thread(n: int) -> int:
    return getattr(HERE, "rate", 1)


SEEN = {
    see_arguments: ["--mine"],
    see_context: (7, 8),
    see_copy: 8,
    see_csv: "too long",
    see_digits: 5000,
    see_level: (True, "NOTICE"),
    see_locale: "C",
    see_mimetype: "text/mine",
    see_numpy: "[0.14]",
    see_pandas: "0.14",
    see_prefix: b'<mine:a xmlns:mine="urn:mine" />',
    see_recursion: 1234,
    see_thread: 5,
    see_translation: ("mine", "/mine"),
    see_variables: ("1", "2", "3"),
    see_week: calendar.SUNDAY,
}


@pytest.fixture
def changed(monkeypatch):
    """Change a setting of every kind, for a while."""
    for name, value in [("MY_RATE", "1"), ("PATH_TO_MINE", "2"), ("USER_RATE", "3")]:
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["job.py", "--mine"])
    monkeypatch.setattr(decimal.DefaultContext, "prec", 7)
    monkeypatch.setattr(decimal.ExtendedContext, "prec", 8)
    monkeypatch.setitem(copyreg.dispatch_table, Coin, lambda c: (double, (c.cents,)))
    monkeypatch.setattr(gettext, "_current_domain", "mine")
    monkeypatch.setitem(gettext._localedirs, "mine", "/mine")
    monkeypatch.setattr(HERE, "rate", 5, raising=False)
    monkeypatch.setitem(ET._namespace_map, "urn:mine", "mine")
    logger, names = logging.getLogger("mine"), logging._levelToName
    monkeypatch.setattr(logger, "level", logging.DEBUG)
    monkeypatch.setitem(names, 27, "NOTICE")
    monkeypatch.setitem(logging._nameToLevel, "NOTICE", 27)
    mimetypes.init()
    monkeypatch.setitem(mimetypes.types_map, ".mine", "text/mine")
    limit, digits = sys.getrecursionlimit(), sys.get_int_max_str_digits()
    width, week = csv.field_size_limit(5), calendar.firstweekday()
    csv.register_dialect("mine", delimiter=";")
    calendar.setfirstweekday(calendar.SUNDAY)
    sys.set_int_max_str_digits(5000)
    sys.setrecursionlimit(1234)
    with pd.option_context("display.precision", 2), np.printoptions(precision=2):
        yield
    sys.setrecursionlimit(limit)
    sys.set_int_max_str_digits(digits)
    calendar.setfirstweekday(week)
    csv.unregister_dialect("mine")
    csv.field_size_limit(width)


def look(on, **options):
    """Return what a program sees of each kind; declared pure, it runs in workers."""
    ones = ab.from_iterable(range(1, 5), int)
    sinks = {see: ones.map(see).to_list() for see in SEEN}
    ab.run(*sinks.values(), on=on, verify="off", **options)
    return {see: sink.items for see, sink in sinks.items()}


@pytest.mark.parametrize(("on", "options"), ENGINES)
@pytest.mark.usefixtures("changed")
def test_every_kind_of_setting_is_seen_in_every_thread(on, options):
    assert {see: [value] * 4 for see, value in SEEN.items()} == look(on, **options)


@pytest.mark.spark
@pytest.mark.usefixtures("changed")
def test_every_kind_of_setting_is_seen_in_workers():
    assert {see: [value] * 4 for see, value in SEEN.items()} == look("spark", degree=2)


@pytest.mark.spark
def test_workers_have_their_own_settings_back():
    """
    The job behind that of the test before has none of its settings.
    """
    ones = ab.from_iterable(range(1, 5), int)
    week = ones.map(see_week).to_list()
    kind = ones.map(see_mimetype).to_list()

    ab.run(week, kind, degree=2, verify="off")

    assert ([calendar.MONDAY] * 4, [None] * 4) == (week.items, kind.items)
