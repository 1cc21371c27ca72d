"""What streams, programs and jobs look like in a shell: one short line each."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import anabranch as ab


class Trade(NamedTuple):
    symbol: str
    price: float


def half(n: int) -> float:
    return n / 2


NUMBERS = ab.from_iterable([1, 2])
TRADES = ab.from_iterable([Trade("A", 1.0)], Trade)

STREAMS = {
    "<Stream from_iterable, from_iterable>": NUMBERS,
    "<Stream map 'use' of float, from_iterable -> map>": NUMBERS.map(half, name="use"),
    "<Stream from_iterable of Trade by symbol, from_iterable>": TRADES.key_by("symbol"),
    "<Stream union, from_iterable and 1 more -> union>": ab.union(
        NUMBERS, ab.from_iterable([3])
    ),
    "<Result to_list 'out', from_iterable -> to_list>": NUMBERS.to_list(name="out"),
    "<WindowedStream count=2 on <Stream from_iterable, from_iterable>>": NUMBERS.window(
        count=2
    ),
}


@pytest.mark.parametrize(("text", "value"), STREAMS.items(), ids=STREAMS)
def test_a_stream_is_shown_by_its_last_operator_and_where_it_comes_from(text, value):
    assert text == repr(value)


def test_a_long_chain_is_shown_by_its_ends():
    stream = NUMBERS
    for _ in range(1000):
        stream = stream.map(half)

    shown = "<Stream map of float, from_iterable -> map -> ... -> map -> map>"
    assert shown == repr(stream)


def test_a_compilation_and_a_job_are_shown_by_what_is_parallel():
    sink = NUMBERS.map(abs).to_list()

    job = ab.run(sink, on="sequential")

    assert "<Compilation of 3 operators, 2 of them parallel>" == repr(ab.compile(sink))
    assert "<Job finished, 3 operators, 0 of them parallel>" == repr(job)


def test_what_holds_many_numbers_is_shown_in_a_line():
    numbers = ab.from_iterable(list(range(100_000)))
    sink = numbers.map(abs).to_list()
    ab.run(numbers.to_list(), on="sequential")
    compilation = ab.compile(sink)

    for value in (
        numbers,
        sink,
        numbers.draft,
        numbers.window(count=2),
        compilation,
        compilation.graph,
        compilation.plan,
        *compilation.graph,
    ):
        assert len(repr(value)) < 500


def test_a_notebook_shows_a_compilation_as_its_graph_with_regions():
    drawing = ab.compile(NUMBERS.map(half, name="use").to_list())._repr_svg_()

    assert drawing.startswith("<svg ")
    assert ">use</text>" in drawing
    assert ">r0</text>" in drawing
