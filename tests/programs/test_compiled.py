"""Compiled programs give what generated Python gives, whatever the batches are."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch as ab
from anabranch.compiler.compile import compile_graph
from anabranch.errors import OperatorError
from anabranch.language.drafts import build_graph
from anabranch.runtime.compiled.program import TieredProgram, choice_of, make_program
from anabranch.runtime.positions import positions_of
from anabranch.runtime.program import Program
from tests import needs
from tests.programs import numeric


def compiled(names, values=()):
    source = ab.from_iterable(list(values), float, name="source")
    graph = build_graph([numeric.stream(names, source).to_list(name="out")])
    plan = compile_graph(graph).plan
    prolific = {op.name for op in plan.operators if op.push.most not in (0, 1)}
    positions = positions_of(graph, frozenset(prolific - {"source"}))
    return graph, replace(choice_of(plan), when="at once"), positions


def both(names, *, tracked=True, **more):
    graph, choice, positions = compiled(names)
    positions = positions if tracked else None
    inside = [name for name in graph.names if name != "out"]
    plain = Program(graph, inside, ["source"], positions=positions, **more)
    tiered = make_program(
        graph, inside, ["source"], choice, positions=positions, **more
    )
    return plain, tiered


def batches(values, cuts):
    ends = sorted({min(cut, len(values)) for cut in cuts} | {0, len(values)})
    return [(values[a:b], a) for a, b in pairwise(ends)]


def taken(program):
    """Take what has left; positions as tuples beside the items."""
    (left,) = program.exits.values()
    items = [repr(item) for item in left.items]
    places = list(zip(*left.positions, strict=True))
    left.clear()
    return items, places


def states_of(program):
    return {
        name: repr(list(own.values())) for name, own in sorted(program.states.items())
    }


def run(program, values, start):
    try:
        program.run(iter(values), [range(start, start + len(values))])
    except OperatorError as error:
        return type(error.__cause__), str(error)
    return None


@settings(max_examples=needs.count_examples(50, 150), deadline=None)
@given(numeric.steps, numeric.items, st.lists(st.integers(0, 60), max_size=5))
def test_items_order_states_and_errors_are_the_same(names, values, cuts):
    plain, tiered = both(names)
    for part, start in batches(values, cuts):
        expected, given = run(plain, part, start), run(tiered, part, start)

        assert expected == given
        (items, places), (ours, our_places) = taken(plain), taken(tiered)
        assert items == ours  # before a failure, too
        if expected is not None:
            return
        assert [place[0] for place in places] == [place[0] for place in our_places]
        assert our_places == sorted(our_places)
        assert len(set(our_places)) == len(our_places)
        assert states_of(plain) == states_of(tiered)


@settings(max_examples=needs.count_examples(20, 60), deadline=None)
@given(numeric.steps, numeric.items, st.lists(st.integers(0, 60), max_size=3))
def test_items_that_fail_are_the_same(names, values, cuts):
    lost, ours_lost = [], []
    plain, _ = both(names, on_error=lost.append)
    _, tiered = both(names, on_error=ours_lost.append)
    for part, start in batches(values, cuts):
        run(plain, part, start)
        run(tiered, part, start)

        assert taken(plain)[0] == taken(tiered)[0]
        told = [(f.operator, repr(f.item)) for f in lost]
        assert sorted(told) == sorted((f.operator, repr(f.item)) for f in ours_lost)


@settings(max_examples=needs.count_examples(30, 100), deadline=None)
@given(
    st.lists(st.sampled_from(["double", "filter", "in Python", "pairs"]), max_size=3),
    st.lists(st.sampled_from([0.0, 1.0, 4.0]), min_size=8, max_size=40),
    st.booleans(),
)
def test_the_places_of_items_that_fail_are_the_same(names, values, tracked):
    """
    The element that runs a batch names an item by how far its iterator has come.
    """
    names = [*names, "inverse", "double"]
    lost = {}
    for which in (0, 1):
        left = iter(values)
        lost[which] = []
        program = both(
            names,
            tracked=tracked,
            on_error=lost[which].append,
            describe=lambda _, left=left: f"{len(values) - left.__length_hint__()}",
        )[which]
        program.run(left, [range(len(values))] if tracked else None)

    expected, given = (
        sorted((f.operator, repr(f.item), f.where) for f in lost[which])
        for which in (0, 1)
    )

    assert expected == given


def test_the_part_runs_compiled():
    _, tiered = both(["double", "smooth", "duplicate", "deal", "pairs"])
    assert isinstance(tiered, TieredProgram)

    run(tiered, [1.0] * 50, 0)

    assert tiered.compiled
    assert tiered.why_not_compiled == ""


@pytest.mark.parametrize(
    "values", [[1.0, 2.0, 3, 4.0] * 5, [True] * 20, ["x"] * 20, [2.0] * 9 + [10**400]]
)
def test_items_of_another_type_go_through_python(values):
    def outcome(program):
        return run(program, values, 0), taken(program)[0]

    plain, tiered = both(["pairs"])

    assert outcome(plain) == outcome(tiered)


def test_python_takes_over_again_and_back():
    plain, tiered = both(["pairs", "smooth"])
    start = 0
    for part in ([1.0] * 9, [1, 2, 3, 4, 5], [2.0] * 9, [math.nan] * 8, [True] * 7):
        for program in (plain, tiered):
            run(program, part, start)
        start += len(part)

        assert taken(plain)[0] == taken(tiered)[0]
        assert states_of(plain) == states_of(tiered)


def test_a_local_run_is_the_sequential_run(monkeypatch):
    monkeypatch.setenv("ANABRANCH_COMPILE", "at_once")
    values = [math.sin(n) * 3 for n in range(20_000)]
    names = ["double", "in Python", "smooth", "duplicate", "pairs", "filter", "root"]
    results = {}
    for engine in ("sequential", "local"):
        out = numeric.stream(names, ab.from_iterable(values, float)).to_list()
        ab.run(out, on=engine)
        results[engine] = list(map(repr, out.items))

    assert results["sequential"] == results["local"]


@pytest.mark.parametrize(
    "names",
    [
        ["inverse"],
        ["filter", "inverse", "in Python"],
        ["in Python", "thrice", "inverse"],
    ],
)
def test_a_failure_tells_the_item_and_leaves_what_came_before(monkeypatch, names):
    monkeypatch.setenv("ANABRANCH_COMPILE", "at_once")
    found = {}
    for engine in ("sequential", "local"):
        source = ab.from_iterable([2.0] * 50 + [0.0] + [1.0] * 50, float)
        out = numeric.stream(names, source).to_list()
        with pytest.raises(OperatorError) as caught:
            ab.run(out, on=engine)
        found[engine] = str(caught.value), out.items

    assert "failed on item 51 of from_iterable: 0.0" in found["sequential"][0]
    assert found["sequential"] == found["local"]


def test_an_operator_that_never_gives_anything(monkeypatch):
    monkeypatch.setenv("ANABRANCH_COMPILE", "at_once")
    source = ab.from_iterable([1.0] * 50, float).map(numeric.double)
    out = source.flat_map(lambda x: []).to_list()
    nothing = source.block(lambda window: [], pop=2, push=0).to_list()

    ab.run(out, nothing, on="local")

    assert ([], []) == (out.items, nothing.items)
