"""A wrong argument of an operator is named where it is written, with what to write."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.errors import ArgumentError, GraphError


class Tick(NamedTuple):
    ts: int
    key: str


def key_of(tick: Tick) -> str:
    return tick.key


S = ab.from_iterable([Tick(1, "a")], Tick)
NOT_NAMES = {
    "merge on": lambda: ab.merge(S, S, by="ts", on=key_of),
    "merge by": lambda: ab.merge(S, S, by=key_of),
    "barrier": lambda: ab.barrier(S, S, on=key_of),
    "join": lambda: S.join(S, on=key_of, left_window=1, right_window=1),
    "names": lambda: ab.barrier(S, S, on=["key", key_of]),
    "event_time": lambda: S.event_time(key_of),
}
NOT_STREAMS = {
    "union of a list": (lambda: ab.union([S, S]), "each input"),
    "merge": (lambda: ab.merge(S, 3, by="ts"), "each input"),
    "barrier": (lambda: ab.barrier(S, None), "each input of barrier"),
    "join": (lambda: S.join(3, left_window=1, right_window=1), "each input of join"),
    "iterate": (
        lambda: S.iterate(lambda _: None, rounds=2),
        "the result of an iterate",
    ),
    "split_join": (
        lambda: S.pipe(
            ab.split_join(ab.duplicate(), [lambda _: None], ab.round_robin())
        ),
        "the result of a branch",
    ),
}


@pytest.mark.parametrize("build", NOT_NAMES.values(), ids=NOT_NAMES)
def test_a_function_where_a_name_belongs_is_refused(build):
    with pytest.raises(
        ArgumentError, match=r"(on|by) must name an attribute; got <fun"
    ):
        build()


@pytest.mark.parametrize(("build", "what"), NOT_STREAMS.values(), ids=NOT_STREAMS)
def test_something_else_where_a_stream_belongs_is_refused(build, what):
    with pytest.raises(ArgumentError, match=f"{what}.* must be a stream; got"):
        build()


def test_a_window_without_a_size_can_be_shown():
    assert "of no size" in repr(S.window())


def test_a_window_that_is_not_aggregated_says_what_is_missing():
    with pytest.raises(AttributeError, match=r"aggregate it first"):
        S.window(count=2).to_list()


def test_a_program_without_a_sink_names_no_operator():
    with pytest.raises(GraphError, match="a program must end in a sink") as raised:
        ab.run(S, on="sequential")
    assert "operator ''" not in str(raised.value)
