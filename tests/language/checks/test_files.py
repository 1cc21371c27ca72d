from dataclasses import dataclass
from typing import Literal, NamedTuple

import pytest

from anabranch.language.sources import (
    from_iterable,
    generate,
    read_csv,
    read_jsonl,
    read_text,
)
from tests.language.faults import assert_accepted, assert_refused, faults_in
from tests.language.types import Trade


@dataclass
class Changing:
    n: int


@dataclass(frozen=True)
class Fixed:
    n: int | None


class Tagged(NamedTuple):
    tags: list[str]


SOURCES_REFUSED = {
    "a dict": (lambda: read_csv("f", dict), "dict is neither a NamedTuple"),
    "nothing": (lambda: read_jsonl("f", None), "is neither a NamedTuple"),
    "a dataclass that is not frozen": (
        lambda: read_csv("f", Changing),
        "dataclass Changing is not frozen",
    ),
    "a declared type that is none": (
        lambda: from_iterable([], list),
        "list is neither a NamedTuple",
    ),
    "a pair in a file": (
        lambda: read_csv("f", tuple[int, str]),
        "tuple is neither a NamedTuple",
    ),
    "an attribute that CSV cannot hold": (
        lambda: read_csv("f", Tagged),
        "'tags' of Tagged is list[str]",
    ),
    "a delimiter of two": (
        lambda: read_csv("f", Trade, delimiter="||"),
        "delimiter must be one ASCII character",
    ),
    "a quote for a delimiter": (
        lambda: read_csv("f", Trade, delimiter='"'),
        "delimiter must be one ASCII character",
    ),
    "an iterator": (lambda: from_iterable(iter([1])), "which can be read once"),
    "a number": (lambda: from_iterable(3), "must be given a collection; got 3"),
}


@pytest.mark.parametrize("given", [tuple[int, str], tuple, dict[str, int]])
def test_items_in_memory_may_be_of_a_plain_type_as_those_of_a_map(given):
    assert () == tuple(faults_in(lambda: from_iterable([], given).to_list()))
    assert () == tuple(faults_in(lambda: generate(list, given).to_list()))


def test_items_in_memory_need_no_type():
    (fault,) = faults_in(lambda: from_iterable([], Changing).to_list())

    assert "dataclass Changing is not frozen" in fault.text
    assert "or leave the type out" in fault.fix


@pytest.mark.parametrize(
    ("source", "text"), SOURCES_REFUSED.values(), ids=SOURCES_REFUSED.keys()
)
def test_sources_that_are_refused(source, text):
    (fault,) = faults_in(lambda: source().to_list())

    assert text in fault.text


SOURCES_ACCEPTED = {
    "a NamedTuple": lambda: read_csv("f", Trade, delimiter=";"),
    "a frozen dataclass": lambda: read_csv("f", Fixed),
    "a scalar": lambda: read_csv("f", float),
    "lists from JSON": lambda: read_jsonl("f", Tagged),
    "text": lambda: read_text("f"),
    "a collection of no declared type": lambda: from_iterable({1, 2}),
    "a generator function": lambda: generate(lambda: iter([1]), int),
}


@pytest.mark.parametrize(
    "source", SOURCES_ACCEPTED.values(), ids=SOURCES_ACCEPTED.keys()
)
def test_sources_that_are_accepted(source):
    assert_accepted(lambda: source().to_list())


def test_two_sinks_to_one_path_are_refused():
    """
    However the path is written.
    """

    def program():
        numbers = from_iterable([1])
        return [
            numbers.write_csv("out/n.csv"),
            numbers.write_csv("out/../out/n.csv"),  # cause
        ]

    assert_refused(program, "it writes to 'out/../out/n.csv', as 'write_csv'")


def test_a_sink_inside_the_directory_of_another_is_refused():
    def program():
        numbers = from_iterable([1])
        return [
            numbers.write_csv("out"),
            numbers.write_jsonl("out/n.jsonl"),  # cause
        ]

    assert_refused(program, "give each sink a path of its own")


@pytest.mark.parametrize("path", ["in/t.csv", "in", "in/*.csv"])
def test_a_sink_to_what_is_read_is_refused(path):
    (fault,) = faults_in(lambda: read_text(path).write_csv("in/t.csv"))

    assert "it writes to 'in/t.csv', which 'read_text'" in fault.text


NAMED_LIKE_FILES = {
    "out/x.csv": "name one file 'x.jsonl', or a directory 'x', or use write_csv",
    "x.json": "name one file 'x.jsonl', or a directory 'x'",
    "s3://b/x.parquet?region=eu": "or use write_parquet",
}


@pytest.mark.parametrize(("path", "advice"), NAMED_LIKE_FILES.items())
def test_a_directory_of_parts_that_is_named_like_a_file_is_refused(path, advice):
    (fault,) = faults_in(lambda: from_iterable([1]).write_jsonl(path))

    assert "one file must end in .jsonl" in fault.text
    assert advice in fault.fix


def test_an_output_that_would_be_compressed_is_refused():
    (fault,) = faults_in(lambda: from_iterable([1]).write_jsonl("x.jsonl.gz"))

    assert "must not be compressed with gzip" in fault.text
    assert "name one file 'x.jsonl', or a directory 'x'" in fault.fix


@pytest.mark.parametrize("path", ["x.jsonl", "x", "v1.2", ".csv", "day=1.5"])
def test_other_names_of_outputs_are_accepted(path):
    assert () == tuple(faults_in(lambda: from_iterable([1]).write_jsonl(path)))


def test_paths_that_stand_apart_are_accepted():
    def program():
        lines = read_text("in/*.txt")
        return [
            lines.write_csv("out/lines.csv"),
            lines.write_csv("out/lines"),
            lines.write_jsonl("in.jsonl"),
        ]

    assert_accepted(program)


def test_a_url_of_an_unknown_store_is_refused():
    def program():
        rows = read_csv("s4://bucket/trades.csv", Trade)  # cause
        return [
            rows.write_csv("s4://nn/out"),  # cause
            rows.write_parquet("gs:out"),  # cause
            rows.write_jsonl(None),  # cause
        ]

    assert_refused(
        program,
        "'s4://bucket/trades.csv' is a URL with the scheme s4",
        "write it with Spark: .to_spark",
        "scheme gs",
        "None is a NoneType",
    )


def test_an_output_in_a_store_does_not_grow():
    def program():
        rows = from_iterable([1])
        return [
            rows.write_csv("s3://bucket/whole", mode="overwrite"),
            rows.write_csv("s3://bucket/out", mode="append"),  # cause
            rows.write_csv("s3://bucket/rolled", roll_items=9),  # cause
        ]

    assert_refused(program, "mode='append' was asked for", "roll was asked for")


class Mixed(NamedTuple):
    number: int
    either: list[int | str]
    some: Literal["a", 7]
    plain: int | float | None


def test_a_parquet_column_of_several_types_is_refused():
    def program():
        rows = from_iterable([], Mixed)
        return [
            rows.write_parquet("out.parquet"),  # cause
            rows.write_jsonl("out.jsonl"),
        ]

    faults = [fault.text for fault in faults_in(program)]
    wanted = ["'either' of Mixed is list[int | str]", "'some' of Mixed is Literal"]
    assert 2 == len(faults)
    assert all(one in text for one, text in zip(wanted, faults, strict=True))
    assert faults[0].endswith("int and str have no type in common")


def test_an_output_needs_a_name():
    def program():
        rows = from_iterable([1])
        return [
            rows.write_csv("."),  # cause
            rows.write_jsonl("/"),  # cause
            rows.write_parquet("out/.."),  # cause
        ]

    faults = [fault.text for fault in faults_in(program)]

    assert 3 == sum("must have a name of its own" in text for text in faults)


def test_a_file_url_overlaps_with_the_path_that_it_stands_for():
    def program():
        rows = read_csv("file:///data/trades", Trade)
        return rows.write_csv("/data/trades/out")  # cause

    assert_refused(program, "which 'read_csv'")
