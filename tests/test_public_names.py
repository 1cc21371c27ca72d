"""The public names: as the interface lists them, each with an example that runs."""

from __future__ import annotations

import doctest
import inspect
import types

import pytest

import anabranch as ab
from anabranch.language.stream import WindowedStream

PUBLIC = """
from_iterable generate read_csv read_jsonl read_parquet read_text
socket kafka read_postgres read_delta read_iceberg from_spark
union merge barrier pipeline split_join duplicate round_robin fuse
sum count any min max mean first last counts highest lowest window_start window_end
declare trust dead_letter
to_stream stage
run start compile explain throughput latency
read Source Sink Malformed RowRange SinkPart KafkaMessage
Stream Result Window Operator Job Metrics Compilation
errors testing
"""
ON_STREAMS = """
map filter flat_map event_time in_order join_latest lookup key_by scan apply window join split punctuate block pipe iterate
to_list for_each write_csv write_jsonl write_parquet
write to_socket to_kafka write_postgres write_delta write_iceberg to_spark
"""
ON_JOBS = "wait stop metrics plan history status error ui compilation"

EXPLAINED = [
    *(
        (f"ab.{name}", getattr(ab, name))
        for name in PUBLIC.split()
        if name not in ("errors", "testing")
    ),
    *((f"Stream.{name}", getattr(ab.Stream, name)) for name in ON_STREAMS.split()),
    ("window(...).aggregate", WindowedStream.aggregate),
    *((f"testing.{name}", getattr(ab.testing, name)) for name in ab.testing.__all__),
]


def test_the_public_names_are_those_of_the_interface():
    assert sorted(PUBLIC.split()) == sorted(ab.__all__)


def test_nothing_else_looks_public():
    """
    Modules of the package are reachable as attributes, as in any package; they are
    private all the same.
    """
    visible = {
        name
        for name, value in vars(ab).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }

    assert set() == visible - set(PUBLIC.split())


def test_streams_have_the_operators_of_the_interface():
    methods = {
        name
        for name, _ in inspect.getmembers(ab.Stream, inspect.isfunction)
        if not name.startswith("_")
    }

    assert set(ON_STREAMS.split()) == methods


def test_jobs_have_what_the_interface_names():
    job = ab.run(ab.from_iterable([1]).to_list(), on="sequential")

    assert [] == [name for name in ON_JOBS.split() if not hasattr(job, name)]


@pytest.mark.parametrize(("name", "value"), EXPLAINED, ids=[n for n, _ in EXPLAINED])
def test_every_public_name_has_an_example(name, value):
    found = doctest.DocTestFinder(recurse=False).find(value, name)

    assert [True] == [bool(test.examples) for test in found], f"{name} has no example"


@pytest.mark.parametrize("name", sorted(vars(ab.errors)))
def test_every_error_says_what_it_means(name):
    error = getattr(ab.errors, name)
    if inspect.isclass(error) and issubclass(error, Exception):
        assert inspect.getdoc(error)
