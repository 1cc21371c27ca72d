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
import typing as _typing
from importlib import metadata as _metadata

from anabranch import errors
from anabranch import notebook as _notebook
from anabranch.compiler.compile import Compilation
from anabranch.connectors.base import Malformed, Sink, Source
from anabranch.control.goals import latency, throughput
from anabranch.graph.declarations import declare, trust
from anabranch.job import Job, explain, run, start
from anabranch.job import compile_sinks as compile  # noqa: A004
from anabranch.language.composites import (
    barrier,
    fuse,
    merge,
    pipeline,
    split_join,
    union,
)
from anabranch.language.drafts import Result
from anabranch.language.loop.read_loop import stage
from anabranch.language.loop.to_stream import to_stream
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
from anabranch.metrics.job_metrics import Metrics
from anabranch.operators.blocks import duplicate, round_robin
from anabranch.operators.custom import Operator
from anabranch.operators.windows import (
    Window,
    count,
    first,
    last,
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

try:
    __version__ = _metadata.version("anabranch")
except _metadata.PackageNotFoundError:  # a copy of the source that is not installed
    __version__ = "0+unknown"

_notebook.register()

__all__ = [
    "Compilation",
    "Job",
    "Malformed",
    "Metrics",
    "Operator",
    "Result",
    "Sink",
    "Source",
    "Stream",
    "Window",
    "any",
    "barrier",
    "compile",
    "count",
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
    "kafka",
    "last",
    "latency",
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
    """Load the kit for tests when somebody asks for it."""
    if name == "testing":
        return _importlib.import_module("anabranch.testing")
    msg = f"module 'anabranch' has no attribute {name!r}"
    raise AttributeError(msg)
