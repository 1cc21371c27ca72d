"""Every engine runs a program with the settings of the thread that started it."""

from __future__ import annotations

import decimal
import os
import sys
import time
import warnings
from datetime import datetime
from typing import NamedTuple

import numpy as np
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
