"""A kit for testing stream programs: scripted sources, offered loads, assertions."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anabranch.connectors.base import Malformed, Source
from anabranch.engines.sequential import SequentialEngine
from anabranch.graph.graph import Graph
from anabranch.language.drafts import build_graph
from anabranch.language.sources import read
from anabranch.language.stream import Stream, stream_of
from anabranch.language.validate import validate
from anabranch.operators.iterate import Iterate
from anabranch.operators.sources import FromIterable
from anabranch.plan.plan import Plan
from anabranch.runtime.ambient import capture_ambient
from anabranch.runtime.thread import Options
from anabranch.testing.assertions import (
    assert_commutative,
    assert_same_everywhere,
    assert_stateless,
)
from anabranch.testing.offered_load import (
    Load,
    OfferedSource,
    burst,
    constant,
    periodic,
    recorded,
    steps,
)

__all__ = [
    "Fail",
    "Load",
    "Pause",
    "assert_commutative",
    "assert_same_everywhere",
    "assert_stateless",
    "burst",
    "constant",
    "offered",
    "outputs",
    "periodic",
    "recorded",
    "script",
    "steps",
]


@dataclass(frozen=True)
class Pause:
    """Nothing arrives for some seconds.

    >>> import anabranch as ab
    >>> ab.testing.outputs(ab.testing.script(1, ab.testing.Pause(0.01), 2))
    [1, 2]
    """

    seconds: float


@dataclass(frozen=True)
class Fail:
    """Reading fails with an error.

    >>> import anabranch as ab
    >>> fail = ab.testing.Fail(OSError("unplugged"))
    >>> ab.testing.outputs(ab.testing.script(1, fail))
    Traceback (most recent call last):
        ...
    anabranch.errors.InputError: ...
    """

    error: Exception


class Script(Source):
    """Reads the steps of a script; a position is the number of steps done."""

    label = "script"

    def __init__(self, steps: tuple[Any, ...]) -> None:
        self._steps = steps

    def read(self, partition: str, position: Any) -> Iterator[tuple[Any, Any]]:
        done = position or 0
        for number, step in enumerate(self._steps[done:], done + 1):
            match step:
                case Pause(seconds):
                    time.sleep(seconds)
                case Fail(error):
                    raise error
                case Malformed() | _:
                    yield step, number


def script(*steps: Any, type: Any = None, name: str | None = None) -> Stream:
    """Read a script, step by step.

    A step is an item; `ab.Malformed(raw, reason)` for an unreadable row; `Pause` for
    some seconds without items; or `Fail` for an error of the source. Items out of time
    order are late, as with any source.

    >>> import anabranch as ab
    >>> numbers = ab.testing.script(1, ab.Malformed("x", "must be a number"), 3)
    >>> out = numbers.map(lambda n: -n).to_list()
    >>> _ = ab.run(out, on="sequential", on_error="skip")
    >>> out.items
    [-1, -3]
    """
    return read(Script(steps), type, name=name)


_NO_PLAN = Plan((), (), (), (), ())


def outputs(stream: Stream) -> list[Any]:
    """Return the items of a stream, as computed by the sequential engine.

    >>> import anabranch as ab
    >>> ab.testing.outputs(ab.from_iterable([1, 2]).map(lambda n: -n))
    [-1, -2]
    """
    sink = stream_of(stream, "testing.outputs").to_list()
    graph = build_graph([sink])
    validate(graph)
    options = Options(ambient=capture_ambient(graph))
    SequentialEngine().start(_copy_always(graph), _NO_PLAN, options).wait()
    return sink.items


def _copy_always(graph: Graph) -> Graph:
    """Return a graph whose operators copy all outputs: no analysis shows which must."""
    ops = []
    for op in graph:
        kind = op.kind
        if isinstance(kind, Iterate):
            kind = replace(kind, body=_copy_always(kind.body))
        copied = not isinstance(kind, FromIterable)
        ops.append(replace(op, kind=kind, copied=copied))
    return Graph(tuple(ops))


def offered(
    load: Load,
    items: Sequence[Any] | None = None,
    type: Any = None,
    *,
    name: str | None = None,
) -> Stream:
    """Read items at the times of a load, however busy the program is.

    They are those of `items`, repeated cyclically, or numbers from 0. The load is one
    of `constant`, `steps`, `burst`, `periodic` and `recorded`. Latency counts from the
    time an item was due, not from when the program read it.

    >>> import anabranch as ab
    >>> numbers = ab.testing.offered(ab.testing.constant(1000, seconds=0.01))
    >>> out = numbers.map(lambda n: -n).to_list()
    >>> job = ab.run(out, on="local")
    >>> out.items[:3], job.metrics().latency.items
    ([0, -1, -2], 10)
    """
    if items is not None and not items:
        msg = "offered load needs items to give; got none"
        raise ValueError(msg)
    if type is None and items is None:
        type = int
    return read(OfferedSource(load, items), type, name=name)
