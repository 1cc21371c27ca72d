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

from anabranch import errors, testing
from anabranch.compiler.compile import Compilation
from anabranch.control.goals import latency, throughput
from anabranch.frontend.stage import stage
from anabranch.frontend.to_stream import to_stream
from anabranch.graph.blocks import duplicate, round_robin
from anabranch.graph.composites import pipeline, split_join
from anabranch.graph.connectors import from_spark, kafka, read_postgres, socket
from anabranch.graph.custom import Operator
from anabranch.graph.declarations import declare, trust
from anabranch.graph.drafts import Sink
from anabranch.graph.fan_in import barrier, fuse, merge, union
from anabranch.graph.reading import (
    from_iterable,
    generate,
    read_csv,
    read_jsonl,
    read_parquet,
    read_text,
)
from anabranch.graph.stream import Stream
from anabranch.graph.windows import (
    Window,
    count,
    first,
    last,
    mean,
)
from anabranch.graph.windows import any_ as any
from anabranch.graph.windows import max_ as max
from anabranch.graph.windows import min_ as min
from anabranch.graph.windows import sum_ as sum
from anabranch.job import Job, explain, run, start
from anabranch.job import compile_sinks as compile  # noqa: A004
from anabranch.runtime.failures import dead_letter

__all__ = [
    "Compilation",
    "Job",
    "Operator",
    "Sink",
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
    "read_csv",
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
]
