"""Regions, by pairs: a program, and the regions (with their keys) that it must give."""

import pytest

from anabranch.compiler.options import Rules, Target
from anabranch.compiler.regions import find_regions
from tests.compiler.notation import program

PAPER = Rules(chains=True)


def regions_of(text, target=None, rules=None):
    """The regions as text: operators, then the key after a colon."""
    found = find_regions(*program(text), target, rules)
    return " | ".join(
        " ".join(one.operators) + (f": {' '.join(one.key)}" if one.key else "")
        for one in found.regions
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

GRAPHS = {
    "a fan-out": ("src -> a; a -> b -> one; a -> c -> two", "a b c"),
    "a fan-in of one region": ("src -> a; a -> b -> u; a -> c -> u -> sink", "a b c u"),
    "the same stream twice": ("src -> a -> u; a -> u -> sink", "a u"),
    "several outputs": ("src -> s[split=2]; s.0 -> a -> one; s.1 -> b -> two", "s a b"),
    "several outputs of which one is used": ("src -> s[split=2]; s.1 -> one", "s"),
    "a fan-in of several sources": ("one -> a -> u; two -> b -> u -> sink", "a b u"),
    "a fan-in of a region and something else": (
        "one -> a -> u; two -> x[global] -> u -> sink",
        "a u",
    ),
    "a key on every branch": (
        "src -> a; a -> b[key=k] -> one; a -> c[key=k+l] -> two",
        "a b c: k",
    ),
    "a key of one branch, where others go on without": (
        "src -> a; a -> b[key=k] -> one; a -> c -> two",
        "a b c: k",
    ),
    "operators with a key that meet": (
        "one -> a[key=k] -> u; two -> b[key=k+l] -> u -> sink",
        "a b u: k",
    ),
    "both sides of a join by key": (
        "one -> a -> j[key=k]; two -> b -> j -> sink",
        "a b j: k",
    ),
    "a join by key of what is not in a region": (
        "one -> x[global] -> j[key=k]; two -> y[global] -> j -> sink",
        "j: k",
    ),
}

NOT_GRAPHS = {
    "a key that one of two ways changes": (
        "src -> a; a -> b -> u; a -> c[forwards=] -> u -> d[key=k] -> sink",
        "a b c u | d: k",
    ),
    "a join of which one side changes the key": (
        "one -> a[forwards=] -> j[key=k]; two -> b -> j -> sink",
        "a | b j: k",
    ),
    "a way back by something outside": (
        "src -> a; a -> x[global] -> u; a -> u -> sink",
        "a",
    ),
    "two ways that cross outside": (
        (
            "one -> a; two -> b; a -> x[global] -> c; b -> y[global] -> d; "
            "b -> c -> u; a -> d -> u -> sink"
        ),
        "a | b c",
    ),
    "a way on which items are divided anew": (
        "src -> a[key=k, forwards=] -> b; b -> u; b -> c[key=k] -> u -> sink",
        "a b: k | c u: k",
    ),
    "keys with nothing in common that meet": (
        "one -> a[key=k] -> u; two -> b[key=l] -> u -> sink",
        "a: k | b: l",
    ),
    "items that may have no such key": (
        "one -> a[key=k] -> u; two -> b -> u -> sink",
        "a: k | b u",
    ),
    "a key beside a branch that is entered elsewhere": (
        "one -> a; two -> b; a -> u; b -> u -> o1; a -> c[key=k] -> o2",
        "a b u | c: k",
    ),
    "sources that are read by range": (
        "one[parallel] -> a -> u; two[parallel] -> b -> u -> sink",
        "one a | two b",
    ),
    "punctuations awaited behind one of its branches": (
        "src -> a -> g[marks]; g -> b -> x[global, expects] -> o1; g -> c -> o2",
        "a | b | c",
    ),
    "punctuations from outside on one of its inputs": (
        "src -> x[global, marks] -> a; a -> b -> o1; a -> c[expects, free] -> o2",
        "a b",
    ),
}

REFUSED = {
    "one state for all items": ("src -> a[global] -> sink", ""),
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
    "fusion that the region before would tear, of operators that go together": (
        "src -> x[global] -> a[key=k] -> b[key=k+l] -> c[key=l, fuse=b] -> sink",
        "a: k | b c: l",
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
@pytest.mark.parametrize("rules", [Rules(), PAPER], ids=["graphs", "chains"])
def test_find_regions(text, expected, rules):
    assert expected == regions_of(text, rules=rules)


@pytest.mark.parametrize(
    ("text", "expected"),
    [*GRAPHS.values(), *NOT_GRAPHS.values()],
    ids=[*GRAPHS, *(f"refuses {title}" for title in NOT_GRAPHS)],
)
def test_regions_are_parts_of_the_graph(text, expected):
    assert expected == regions_of(text)


@pytest.mark.parametrize("text", [text for text, _ in GRAPHS.values()], ids=GRAPHS)
def test_by_the_rule_of_the_paper_no_region_has_several_streams(text):
    graph, traits = program(text)

    for region in find_regions(graph, traits, rules=PAPER).regions:
        for name in region.operators:
            assert len(graph[name].inputs) == len(graph.out_edges(name)) == 1


PAIRED = {
    "branches of one item each meet at a barrier": (
        "src -> x[global]; x -> a -> j[barrier, global]; x -> b -> j; j -> c -> sink",
        "a b j c",
    ),
    "a barrier behind operators of one key": (
        (
            "src -> x[global]; x -> a[key=k] -> j[barrier, global]; x -> b[key=k] -> j;"
            "j -> c -> sink"
        ),
        "a b j c: k",
    ),
    "a branch without a key beside one with a key": (
        (
            "src -> x[global]; x -> a -> j[barrier, global]; x -> b[key=k] -> j;"
            "j -> c -> sink"
        ),
        "a b j c: k",
    ),
    "a joiner that takes what each branch gives": (
        (
            "src -> x[global]; x -> a -> j[collect=1+2, global]; x -> b[block=1>2] -> j;"
            "j -> c -> sink"
        ),
        "a b j c",
    ),
    "pairs of pairs": (
        (
            "src -> x[global]; x -> a; a -> b -> j[barrier, global]; a -> c -> j;"
            "a -> d -> k[barrier, global]; j -> k; k -> e -> sink"
        ),
        "a b c j d k e",
    ),
}
NOT_PAIRED = {
    "a branch that may drop items": (
        (
            "src -> x[global]; x -> a -> j[barrier, global]; x -> b[push=0..1] -> j;"
            "j -> c -> sink"
        ),
        "a | b | c",
    ),
    "a joiner that takes less than a branch gives": (
        (
            "src -> x[global]; x -> a -> j[collect=1+1, global]; x -> b[block=1>2] -> j;"
            "j -> c -> sink"
        ),
        "a | b | c",
    ),
    "a branch with an operator outside of the region": (
        (
            "src -> x[global]; x -> a -> j[barrier, global]; x -> y[global] -> j;"
            "j -> c -> sink"
        ),
        "a | c",
    ),
    "branches in regions of their own": (
        (
            "src -> x[global]; x -> a[key=l] -> j[barrier, global]; x -> b[key=k] -> j;"
            "j -> c -> sink"
        ),
        "a: l | b: k | c",
    ),
    "streams of two sources": (
        "one -> a -> j[barrier, global]; two -> b -> j; j -> c -> sink",
        "a | b | c",
    ),
    "pairs in which there is nothing to do": (
        "src -> x[global]; x -> j[barrier, global]; x -> j; j -> sink",
        "",
    ),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [*PAIRED.values(), *NOT_PAIRED.values()],
    ids=[*PAIRED, *(f"refuses {title}" for title in NOT_PAIRED)],
)
@pytest.mark.parametrize("batched", [False, True])
def test_a_fan_in_that_holds_nothing_back_is_in_a_region(text, expected, batched):
    assert expected == regions_of(text, Target(batched=batched))


@pytest.mark.parametrize("text", [text for text, _ in PAIRED.values()], ids=PAIRED)
def test_a_fan_in_of_items_that_may_fail_is_in_no_region(text):
    found = find_regions(*program(text), Target(resilient=True))

    assert "j counts" == found.refused["j"].text
    assert "j" not in {name for one in found.regions for name in one.operators}


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


def test_streams_of_sources_that_one_worker_reads_meet_in_a_region():
    """Where replicas read ranges of a source, no other stream has the same ranges."""
    text = "one[parallel] -> a; a -> u; b -> u[union] -> c -> sink; two[parallel] -> b"

    assert "a b u c" == regions_of(text, Target(parallel_ends=False))
    assert "one a | two b | u c" == regions_of(text, Target(batched=True))


@pytest.mark.parametrize(
    ("parallel_ends", "why"),
    [(True, "are read by range"), (False, "are dealt in turn")],
)
def test_what_ends_a_region_behind_a_source_is_true_on_each_engine(parallel_ends, why):
    text = "src[parallel] -> a -> b[key=k] -> sink"
    found = find_regions(*program(text), Target(parallel_ends=parallel_ends))

    assert [f"b: needs its items by k, but they {why}", "sink"] == [
        found.regions[0].ends,
        found.regions[1].ends[:4],
    ]


REASONS = {
    "src -> a[global] -> sink": ("a", "a counts"),
    "one -> a; two -> a -> sink": ("a", "combines 2 streams"),
    "src -> a; a -> one; a -> two": ("a", "feeds 2 streams"),
    "src -> s[split=3]; s.0 -> one": ("s", "divides its input into 3 streams"),
    "src -> a[pop=2] -> sink": ("a", "takes 2 items at a time"),
    "src -> a[block=2>1 peek 5] -> sink": (
        "a",
        "takes 2 items at a time and peeks at 5",
    ),
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
    assert why == find_regions(*program(text), rules=PAPER).refused[operator].text


def test_region_says_why_it_goes_no_further():
    found = find_regions(*program("src -> a[key=k] -> b[key=l] -> sink"))

    assert "b: keeps state by l, which has nothing in common with k" == (
        found.regions[0].ends
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
    by_paper = regions_of(FIGURE_4, rules=PAPER)

    assert "o1 | o2 | o5 o6: k | o9 o10: k | o11: l" == by_paper


def test_figure_4_says_what_is_in_the_way_of_the_fusion():
    refused = find_regions(*program(FIGURE_4), rules=PAPER).refused

    expected = "must be fused with o13: combines 2 streams"

    assert expected == refused["o12"].text == refused["o14"].text
