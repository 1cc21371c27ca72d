"""Anabranch: stream programs that parallelise themselves, safely.

Write the program as if one thread ran it; `run` works out what may run in parallel
and keeps every item, and the order of every stream, as that one thread would have.

>>> import anabranch as ab
>>> words = ab.from_iterable(["b", "a", "b"])
>>> out = words.filter(lambda w: w > "a").to_list()
>>> _ = ab.run(out, on="sequential")
>>> out.items
['b', 'b']
"""

import importlib as _importlib
import sys as _sys
import typing as _typing

from anabranch import errors
from anabranch.connectors.base import Malformed, RowRange, Sink, Source
from anabranch.graph.declarations import declare, trust
from anabranch.language.composites import (
    barrier,
    fuse,
    merge,
    pipeline,
    split_join,
    union,
)
from anabranch.language.drafts import Result
from anabranch.language.sources import (
    from_iterable,
    from_spark,
    generate,
    kafka,
    read,
    read_csv,
    read_delta,
    read_iceberg,
    read_jsonl,
    read_parquet,
    read_postgres,
    read_text,
    socket,
)
from anabranch.language.stream import Stream
from anabranch.operators.blocks import duplicate, round_robin
from anabranch.operators.custom import Operator
from anabranch.operators.sinks import SinkPart
from anabranch.operators.windows import (
    Window,
    count,
    counts,
    first,
    highest,
    last,
    lowest,
    mean,
    window_end,
    window_start,
)
from anabranch.operators.windows import any_ as any
from anabranch.operators.windows import max_ as max
from anabranch.operators.windows import min_ as min
from anabranch.operators.windows import sum_ as sum
from anabranch.runtime.failures import dead_letter

if _typing.TYPE_CHECKING:
    from anabranch import testing
    from anabranch.compiler.compile import Compilation
    from anabranch.connectors.kafka import KafkaMessage
    from anabranch.control.goals import latency, throughput
    from anabranch.job import Job, explain, run, start
    from anabranch.job import compile_sinks as compile  # noqa: A004
    from anabranch.language.loop.read_loop import stage
    from anabranch.language.loop.to_stream import to_stream
    from anabranch.metrics.job_metrics import Metrics

    __version__: str

# Names for writing a program are loaded at once, those for running it on first use:
# most processes, such as Spark workers, need little of it.
_LATER = {
    "Compilation": "compiler.compile:Compilation",
    "Job": "job:Job",
    "KafkaMessage": "connectors.kafka:KafkaMessage",
    "Metrics": "metrics.job_metrics:Metrics",
    "compile": "job:compile_sinks",
    "explain": "job:explain",
    "latency": "control.goals:latency",
    "run": "job:run",
    "stage": "language.loop.read_loop:stage",
    "start": "job:start",
    "testing": "testing",
    "throughput": "control.goals:throughput",
    "to_stream": "language.loop.to_stream:to_stream",
}

__all__ = [
    "Compilation",
    "Job",
    "KafkaMessage",
    "Malformed",
    "Metrics",
    "Operator",
    "Result",
    "RowRange",
    "Sink",
    "SinkPart",
    "Source",
    "Stream",
    "Window",
    "any",
    "barrier",
    "compile",
    "count",
    "counts",
    "dead_letter",
    "declare",
    "duplicate",
    "errors",
    "explain",
    "first",
    "from_iterable",
    "from_spark",
    "fuse",
    "generate",
    "highest",
    "kafka",
    "last",
    "latency",
    "lowest",
    "max",
    "mean",
    "merge",
    "min",
    "pipeline",
    "read",
    "read_csv",
    "read_delta",
    "read_iceberg",
    "read_jsonl",
    "read_parquet",
    "read_postgres",
    "read_text",
    "round_robin",
    "run",
    "socket",
    "split_join",
    "stage",
    "start",
    "sum",
    "testing",
    "throughput",
    "to_stream",
    "trust",
    "union",
    "window_end",
    "window_start",
]


def __getattr__(name: str) -> _typing.Any:
    """Load a public name when it is first used."""
    if name == "__version__":
        return _find_version()
    if name not in _LATER:
        msg = f"module 'anabranch' has no attribute {name!r}"
        raise AttributeError(msg)
    file, _, inside = _LATER[name].partition(":")
    module = _importlib.import_module(f"anabranch.{file}")
    found = globals()[name] = getattr(module, inside) if inside else module
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _find_version() -> str:
    metadata = _importlib.import_module("importlib.metadata")
    try:
        return str(metadata.version("anabranch"))
    except metadata.PackageNotFoundError:  # a source tree that is not installed
        return "0+unknown"


if "IPython" in _sys.modules:  # this may be a notebook, where streams are drawn
    _importlib.import_module("anabranch.notebook").register()
