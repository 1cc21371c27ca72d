"""A kit for testing stream programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.connectors.offered import (
    Load,
    burst,
    constant,
    periodic,
    recorded,
    steps,
)
from anabranch.engines.engine import Options
from anabranch.engines.sequential import SequentialEngine
from anabranch.language.drafts import build_graph
from anabranch.language.stream import Stream, source
from anabranch.language.validate import validate
from anabranch.operators.sources import Offered
from anabranch.plan.plan import Plan
from anabranch.runtime.ambient import capture_ambient
from anabranch.testing.assertions import (
    assert_commutative,
    assert_same_everywhere,
    assert_stateless,
)
from anabranch.testing.scripts import Fail, Pause, script

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

_NO_PLAN = Plan((), (), (), (), ())


def outputs(stream: Stream) -> list[Any]:
    """Return the items of a stream, as computed by the sequential engine.

    >>> import anabranch as ab
    >>> ab.testing.outputs(ab.from_iterable([1, 2]).map(lambda n: -n))
    [-1, -2]
    """
    sink = stream.to_list()
    graph = build_graph([sink])
    validate(graph)
    options = Options(ambient=capture_ambient(graph))
    SequentialEngine().start(graph, _NO_PLAN, options).wait()
    return sink.items


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
    return source(Offered(load.due_s, items), type, name)
