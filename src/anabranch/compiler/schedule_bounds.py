"""What a schedule needs beside its repetitions: a beginning, and room on its streams.

An operator that looks ahead (peek > pop) needs items that it does not take yet. The
initial firings bring them; after them every round is like the next (section 4 of the
paper rests on the schedules of StreamIt, which have the same two parts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anabranch.graph.balance import Flow
from anabranch.plan.plan import Buffer

_LONGEST_ROUND = 20_000  # firings that are still worth simulating


class Steady(NamedTuple):
    """The initial firings of operators, and the room that their streams need."""

    initial: dict[str, int]
    buffers: tuple[Buffer, ...]


def steady_state(
    operators: Sequence[str],
    flows: Sequence[Flow],
    repetitions: Mapping[str, int],
    looks_ahead: Mapping[str, int],
) -> Steady:
    """Return the initial firings and the least buffers of connected operators.

    `operators` stand with producers first; `looks_ahead[c]` is by how many items the
    peek of `c` exceeds its pop.

    >>> flows = [Flow("a", 2, "b", 3)]
    >>> steady_state("ab", flows, {"a": 3, "b": 2}, {"b": 2})
    Steady(initial={'a': 1}, buffers=(Buffer(producer='a', consumer='b', items=6),))
    """
    inside = [flow for flow in flows if flow.push and flow.pop]
    initial = _initial(operators, inside, looks_ahead)
    rounds = sum(repetitions[name] for name in operators) + sum(initial.values())
    buffers = (
        _most_held(operators, inside, repetitions, initial, looks_ahead)
        if rounds <= _LONGEST_ROUND
        else _bounds(inside, looks_ahead)
    )
    return Steady({name: n for name, n in initial.items() if n}, buffers)


def _initial(
    operators: Sequence[str], flows: Sequence[Flow], looks_ahead: Mapping[str, int]
) -> dict[str, int]:
    """Return how often each operator fires before the first round, consumers first."""
    initial = dict.fromkeys(operators, 0)
    for name in reversed(operators):
        for flow in flows:
            if flow.producer == name:
                ahead = looks_ahead.get(flow.consumer, 0)
                needed = initial[flow.consumer] * flow.pop + ahead
                initial[name] = max(initial[name], -(-needed // flow.push))
    return initial


def _most_held(
    operators: Sequence[str],
    flows: Sequence[Flow],
    repetitions: Mapping[str, int],
    initial: Mapping[str, int],
    looks_ahead: Mapping[str, int],
) -> tuple[Buffer, ...]:
    """Run the beginning and one round, consumers as early as they can, and look."""
    held = [0] * len(flows)
    most = [0] * len(flows)
    for left in (dict(initial), {name: repetitions[name] for name in operators}):
        while any(left.values()):
            ready = (
                name
                for name in reversed(operators)
                if left[name] and _ready(name, flows, held, looks_ahead)
            )
            name = next(ready, "")
            if not name:  # cannot be: a round takes what it brings
                return _bounds(flows, looks_ahead)
            left[name] -= 1
            for index, flow in enumerate(flows):
                if flow.consumer == name:
                    held[index] -= flow.pop
                if flow.producer == name:
                    held[index] += flow.push
                    most[index] = max(most[index], held[index])
    return tuple(
        Buffer(flow.producer, flow.consumer, count)
        for flow, count in zip(flows, most, strict=True)
    )


def _ready(
    name: str,
    flows: Sequence[Flow],
    held: Sequence[int],
    looks_ahead: Mapping[str, int],
) -> bool:
    return all(
        count >= flow.pop + looks_ahead.get(name, 0)
        for flow, count in zip(flows, held, strict=True)
        if flow.consumer == name
    )


def _bounds(
    flows: Sequence[Flow], looks_ahead: Mapping[str, int]
) -> tuple[Buffer, ...]:
    """Return room that suffices, for rounds too long to be tried out."""
    return tuple(
        Buffer(
            flow.producer,
            flow.consumer,
            flow.push + flow.pop + looks_ahead.get(flow.consumer, 0),
        )
        for flow in flows
    )
