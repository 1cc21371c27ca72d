"""Regions, by pairs: a program, and the regions (with their keys) that it must give."""

import pytest

from anabranch.compiler.options import Target
from anabranch.compiler.regions import find_regions
from tests.compiler.notation import program


def regions_of(text, target=None):
    """The regions as text: operators, then the key after a colon."""
    found = find_regions(*program(text), target or Target())
    return " | ".join(
        " ".join(chain.operators) + (f": {' '.join(chain.key)}" if chain.key else "")
        for chain in found.chains
    )


FORMED = {
    "stateless neighbours are one region": ("src -> a -> b -> sink", "a b"),
    "a keyed operator is a region": ("src -> a[key=k] -> sink", "a: k"),
    "stateless operators join a keyed one on both sides": (
        "src -> a -> b[key=k] -> c -> sink",
        "a b c: k",
    ),
    "the region key is what the keys have in common": (
        "src -> a[key=k+l] -> b[key=l+m] -> sink",
        "a b: l",
    ),
    "a key shrinks with every operator that joins": (
        "src -> a[key=k+l+m] -> b[key=k+l] -> c[key=l+x] -> sink",
        "a b c: l",
    ),
    "only the forwarded part of a key can be the region key": (
        "src -> a[forwards=l] -> b[key=k+l] -> sink",
        "a b: l",
    ),
    "what a keyed operator loses does not matter to those before it": (
        "src -> a[key=k, forwards=] -> b -> sink",
        "a b: k",
    ),
    "fused operators in one region stay there": (
        "src -> a -> b[fuse=a] -> c -> sink",
        "a b c",
    ),
    "a parallel source starts a region": ("src[parallel] -> a -> sink", "src a"),
    "a partitioned source gives its key to the region": (
        "src[parallel, key=k] -> a[key=k+l] -> sink",
        "src a: k",
    ),
    "an ordered sink writes the ranges of a parallel source": (
        "src[parallel] -> a -> sink[parallel]",
        "src a sink",
    ),
    "what awaits punctuations joins the region that makes them": (
        "src -> a[marks] -> b -> c[expects, free] -> d -> sink",
        "a b c d",
    ),
    "punctuations from outside pass through a region": (
        "src -> x[global, marks] -> a -> b -> y[global, expects] -> sink",
        "a b",
    ),
    "punctuations that nobody awaits do not matter": (
        "src -> a[marks] -> b -> sink",
        "a b",
    ),
    "every branch of a fan-out may have regions": (
        "src -> x[global]; x -> a -> one; x -> b -> two",
        "a | b",
    ),
}

REFUSED = {
    "one state for all items": ("src -> a[global] -> sink", ""),
    "a fan-in": ("one -> a; two -> a -> sink", ""),
    "the same stream twice": ("src -> x -> a; x -> a -> sink", ""),
    "a fan-out": ("src -> a; a -> one; a -> two", ""),
    "several outputs": ("src -> s[split=2]; s.0 -> one; s.1 -> two", ""),
    "several outputs of which one is used": ("src -> s[split=2]; s.1 -> one", ""),
    "several items at a time": ("src -> a[pop=2] -> sink", ""),
    "a varying number of items": ("src -> a[pop=*] -> sink", ""),
    "a block of several items": ("src -> a[block=2>1] -> sink", ""),
    "a block that peeks": ("src -> a[block=1>1 peek 3] -> sink", ""),
    "keys with nothing in common": (
        "src -> a[key=k] -> b[key=l] -> sink",
        "a: k | b: l",
    ),
    "a key that an operator on the way changes": (
        "src -> a[forwards=] -> b[key=k] -> sink",
        "a | b: k",
    ),
    "a key that a keyed operator on the way changes": (
        "src -> a[key=k, forwards=] -> b[key=k] -> sink",
        "a: k | b: k",
    ),
    "a common key of which the rest was lost": (
        "src -> a[key=k+l] -> b[forwards=k] -> c[key=l] -> sink",
        "a b: k l | c: l",
    ),
    "keys below a source that hands out ranges": (
        "src[parallel] -> a -> b[key=k] -> sink",
        "src a | b: k",
    ),
    "an ordered sink behind a key": (
        "src -> a[key=k] -> sink[parallel]",
        "a: k",
    ),
    "an ordered sink behind dealt-out items": ("src -> a -> sink[parallel]", "a"),
    "fusion with a sequential operator": (
        "src -> a -> x[global, fuse=a] -> b -> sink",
        "b",
    ),
    "fusion across what lies between": (
        "src -> a -> x[global] -> b[fuse=a] -> c -> sink",
        "c",
    ),
    "fusion across two regions": (
        "src -> a[key=k] -> b[key=l, fuse=a] -> c -> sink",
        "c",
    ),
    "fusion of two branches": (
        "src -> x[global]; x -> a -> one; x -> b[fuse=a] -> two",
        "",
    ),
    "punctuations awaited behind the region": (
        "src -> a -> g[marks] -> b -> x[global, expects] -> sink",
        "a | b",
    ),
    "punctuations awaited inside and behind the region": (
        "src -> g[marks] -> a[expects] -> x[global, expects] -> sink",
        "",
    ),
    "punctuations from outside that an operator acts on": (
        "src -> x[global, marks] -> a -> b[expects, free] -> c -> sink",
        "a | c",
    ),
    "keyed state that a punctuation closes": (
        "src -> g[marks] -> a[key=k, expects] -> sink",
        "",
    ),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [*FORMED.values(), *REFUSED.values()],
    ids=[*FORMED, *(f"refuses {title}" for title in REFUSED)],
)
def test_find_regions(text, expected):
    assert expected == regions_of(text)


BATCHED = {
    "an ordered sink behind a key writes ranges of its own": (
        "src -> a[key=k] -> sink[parallel]",
        "a: k | sink",
    ),
    "an ordered sink joins operators without state": (
        "src -> a -> sink[parallel]",
        "a sink",
    ),
}


@pytest.mark.parametrize(("text", "expected"), BATCHED.values(), ids=BATCHED)
def test_engine_that_works_in_batches(text, expected):
    assert expected == regions_of(text, Target(batched=True))


def test_engine_without_parallel_ends_reads_and_writes_with_one_worker():
    text = "src[parallel] -> a -> sink[parallel, unordered]"

    assert "a" == regions_of(text, Target(parallel_ends=False))


REASONS = {
    "src -> a[global] -> sink": ("a", "a counts"),
    "one -> a; two -> a -> sink": ("a", "brings 2 streams together"),
    "src -> a; a -> one; a -> two": ("a", "feeds 2 streams"),
    "src -> s[split=3]; s.0 -> one": ("s", "divides its input into 3 streams"),
    "src -> a[pop=2] -> sink": ("a", "takes 2 items at a time"),
    "src -> a[block=2>1 peek 5] -> sink": ("a", "takes 2 items at a time and sees 5"),
    "src -> a -> x[global, fuse=a] -> sink": (
        "a",
        "must be fused with x: x counts",
    ),
    "src -> g[marks] -> x[global, expects] -> sink": (
        "g",
        "makes punctuations that are awaited after g",
    ),
    "src -> sink": ("sink", "can only be written by one worker"),
    "src -> a -> sink[parallel]": (
        "sink",
        "is written in order, but the items come one by one",
    ),
}


@pytest.mark.parametrize(
    ("text", "operator", "why"), [(t, *rest) for t, rest in REASONS.items()]
)
def test_refusal_says_why(text, operator, why):
    assert why == find_regions(*program(text)).refused[operator].text


def test_region_says_why_it_goes_no_further():
    found = find_regions(*program("src -> a[key=k] -> b[key=l] -> sink"))

    assert "b: keeps state by l, which has nothing in common with k" == (
        found.chains[0].ends
    )


def test_figure_1():
    """
    ParSrc is a source partitioned by server, Aggregate keeps windows by uid and gives
    uid by Any, Filter is stateless, TCPSink is not parallelisable (the right of Fig. 1
    shows a shuffle between the first two and a merge before the sink).
    """
    text = """
    ParSrc[parallel, key=server]
        -> Aggregate[key=uid, push=0..1, forwards=uid] -> Filter[push=0..1] -> TCPSink
    """

    assert "ParSrc: server | Aggregate Filter: uid" == regions_of(
        " ".join(text.split())
    )


FIGURE_4 = """
s1 -> o1 -> o8
s2 -> o2 -> o3[global] -> o4[global] -> o5 -> o6[key=k] -> o7[global] -> o8
o8 -> o9[key=k] -> o10[key=k+l] -> o11[key=l] -> o13
s3 -> o12 -> o13 -> o14[fuse=o12] -> end
"""


def test_figure_4():
    """
    The figure is read from the text of section 3.3: o8 and o13 are fan-ins, o3 is
    n.p., o5 has no state and o6 is keyed by k; o9 to o11 are keyed so that o10 goes
    with either neighbour but not with both (k, then k and l, then l); o14 is fused
    with o12 although o13 lies between. o4 and o7 are taken to be n.p., and s1 to s3
    and `end` stand for the sources and the sink outside of the text.
    """
    assert "o1 | o2 | o5 o6: k | o9 o10: k | o11: l" == regions_of(FIGURE_4)


def test_figure_4_says_what_is_in_the_way_of_the_fusion():
    refused = find_regions(*program(FIGURE_4)).refused

    expected = "must be fused with o13: brings 2 streams together"

    assert expected == refused["o12"].text == refused["o14"].text
