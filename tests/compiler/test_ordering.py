"""Joints and orderings, by pairs: a program, and what each region must get."""

from dataclasses import replace

import pytest

from anabranch.compiler.make_plan import make_plan
from anabranch.compiler.options import LOCAL, SEQUENTIAL, SPARK, Target
from anabranch.compiler.ordering import order_regions
from anabranch.compiler.regions import find_regions
from anabranch.plan.integrity import check
from tests.compiler.notation import program


def orderings(text, target=LOCAL):
    """Each region as `first joint, ordering, last joint`."""
    graph, traits = program(text)
    plan = make_plan(graph, traits, target)
    check(graph, plan)
    return " | ".join(
        f"{r.first_joint} {r.ordering} {r.last_joint}" for r in plan.regions
    )


TABLE_1 = {
    "stateless, 1:1": ("src -> a -> b -> sink", "split round_robin merge"),
    "keyed, 1:1": ("src -> a[key=k] -> sink", "split seqno merge"),
    "stateless, at most one": ("src -> a[push=0..1] -> sink", "split strict merge"),
    "keyed, at most one": ("src -> a[key=k, push=0..1] -> sink", "split strict merge"),
    "stateless, any number": ("src -> a[push=0..*] -> sink", "split relaxed merge"),
    "keyed, any number": ("src -> a[key=k, push=0..*] -> sink", "split relaxed merge"),
    "always two": ("src -> a[push=2] -> sink", "split relaxed merge"),
    "at most one after at least one": (
        "src -> a[push=1..*] -> b[push=0..1] -> sink",
        "split relaxed merge",
    ),
    "never any": ("src -> a[push=0] -> sink", "split strict merge"),
}

BEYOND = {
    "one thread reads and writes": (
        "src[parallel] -> a -> sink[parallel]",
        "split round_robin merge",
    ),
    "punctuations that are removed leave gaps": (
        "src -> a[free] -> sink",
        "split strict merge",
    ),
    "a sink that takes its items in any order": (
        "src -> a[push=0..*] -> sink[unordered]",
        "split none merge",
    ),
    "the same behind a shuffle, which keeps its order": (
        "src -> a[key=k] -> b[key=l] -> sink[unordered]",
        "split strict shuffle | shuffle none merge",
    ),
    "another sink asks for the order": (
        "src -> a -> one[unordered]; a -> two",
        "split round_robin merge",
    ),
    "an operator behind the region asks for it": (
        "src -> a -> x[global] -> sink[unordered]",
        "split round_robin merge",
    ),
    "streams of several threads meet before it": (
        "src -> x[global]; x -> a -> u; x -> b -> u -> c -> sink[unordered]",
        "split position merge",
    ),
    "streams of several threads meet by position": (
        "src -> x[global]; x -> a -> u[global]; x -> b[key=k] -> u -> c -> sink",
        "split position merge | split position merge | split round_robin merge",
    ),
    "so does whatever leads there": (
        "src -> a -> x[global]; x -> b -> u[global]; x -> c -> u -> sink",
        "split position merge | split position merge | split position merge",
    ),
    "streams of several threads meet in a region": (
        "src -> x[global]; x -> a -> u; x -> b -> u -> c -> sink",
        "split position merge",
    ),
    "so does a region that it shuffles to": (
        "one -> a -> u; two -> b -> u -> c[forwards=] -> d[key=k] -> sink",
        "split position shuffle | shuffle position merge",
    ),
    "a fan-out needs no positions": (
        "src -> a; a -> b[push=0..1] -> one; a -> c -> two",
        "split strict merge",
    ),
    "nor does a fan-in in one thread, but numbers repeat": (
        "src -> a; a -> b -> u; a -> c -> u -> sink",
        "split relaxed merge",
    ),
    "incompatible keys meet in a shuffle, whose receivers see gaps": (
        "src -> a[key=k] -> b[key=l] -> sink",
        "split strict shuffle | shuffle strict merge",
    ),
    "gaps before a shuffle are gaps after it": (
        "src -> a[key=k, push=0..1] -> b[key=l] -> sink",
        "split strict shuffle | shuffle strict merge",
    ),
    "numbers that repeat tell nothing after a shuffle": (
        "src -> a[key=k, push=0..*] -> b[key=l] -> sink",
        "split position shuffle | shuffle position merge",
    ),
    "gaps of the first region reach the third": (
        "src -> a[key=k, push=0..1] -> b[key=l] -> c[key=m] -> sink",
        "split strict shuffle | shuffle strict shuffle | shuffle strict merge",
    ),
    "a sequential operator numbers anew": (
        "src -> a[key=k, push=0..1] -> x[global] -> b[key=l] -> sink",
        "split strict merge | split seqno merge",
    ),
    "Figure 1": (
        "src[parallel, key=server] -> a[key=uid, push=0..1] -> f[push=0..1] -> sink",
        "split strict merge",
    ),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [*TABLE_1.values(), *BEYOND.values()],
    ids=[*(f"Table 1: {title}" for title in TABLE_1), *BEYOND],
)
def test_order_regions(text, expected):
    assert expected == orderings(text)


BATCHED = {
    "any region without state has ranges": (
        "src -> a[push=0..*] -> sink",
        "split contiguous merge",
    ),
    "a key scatters the items": ("src -> a[key=k] -> sink", "split position merge"),
    "ranges of a parallel source stay ranges, whatever the rate": (
        "src[parallel] -> a[push=0..*] -> sink",
        "parallel_source contiguous merge",
    ),
    "ranges are written as ranges": (
        "src[parallel] -> a -> sink[parallel]",
        "parallel_source contiguous parallel_sink",
    ),
    "one task writes what it has": ("src -> x[global] -> sink[parallel]", ""),
    "ordered output of a keyed region is written in ranges": (
        "src[parallel] -> a[key=k, push=0..1] -> sink[parallel]",
        (
            "parallel_source contiguous shuffle | shuffle position shuffle"
            " | shuffle contiguous parallel_sink"
        ),
    ),
}


@pytest.mark.parametrize(("text", "expected"), BATCHED.values(), ids=BATCHED)
def test_engine_that_works_in_batches(text, expected):
    assert expected == orderings(text, Target(batched=True))


def test_items_that_may_fail_leave_gaps():
    resilient = replace(LOCAL, resilient=True)

    assert "split strict merge" == orderings("src -> a -> sink", resilient)
    assert "" == orderings("src -> a[block=2>1] -> sink", resilient)


def test_one_thread_has_no_regions():
    assert "" == orderings("src -> a -> b[key=k] -> sink", SEQUENTIAL)


def test_why_names_the_rate():
    graph, traits = program("src -> a[push=0..3] -> sink")
    [region] = order_regions(graph, traits, find_regions(graph, traits).regions)

    assert "0 to 3 outputs for each item, so numbers repeat and have gaps" == region.why


def test_a_region_says_why_streams_meet_in_it():
    graph, traits = program(
        "src -> x[global]; x -> a -> j[barrier, global]; x -> b -> j; j -> c -> sink"
    )

    for target in (LOCAL, SPARK):
        [region] = make_plan(graph, traits, target).regions
        assert "all inputs of j come from one item" in region.why
