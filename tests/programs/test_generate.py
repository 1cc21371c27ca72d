"""The generated programs themselves: valid, varied, repeatable, reproducible."""

from __future__ import annotations

import pytest

from anabranch.graph.graph import Op
from anabranch.language.drafts import build_graph
from anabranch.language.validate import faults_of
from anabranch.operators.blocks import Block, Collect, Deal
from anabranch.operators.custom import Apply, Scan
from anabranch.operators.fan_in import Barrier, Merge, Union
from anabranch.operators.iterate import Iterate
from anabranch.operators.join import Join
from anabranch.operators.sources import FromIterable, Generate
from anabranch.operators.stateless import Filter, FlatMap, Map, Punctuate, Split
from anabranch.operators.windows import Aggregate
from tests import needs
from tests.programs.generate import (
    Program,
    assert_same,
    first_difference,
    program,
    run_sequential,
)

SEEDS = range(300)
KINDS = {
    Apply, Aggregate, Barrier, Block, Collect, Deal, Filter, FlatMap, FromIterable,
    Generate, Iterate, Join, Map, Merge, Punctuate, Scan, Split, Union,
}  # fmt: skip
WINDOWS = {"count", "time", "delta", "count every", "time every", "delta every"}


@pytest.fixture(scope="module")
def operators() -> list[Op]:
    return [op for seed in SEEDS for op in build_graph(program(seed).build())]


def test_every_kind_of_operator_appears(operators):
    assert set() == KINDS - {type(op.kind) for op in operators}


def test_every_kind_of_window_appears_with_and_without_a_key(operators):
    seen = {
        (_shape(op.kind.window), bool(op.state_key))
        for op in operators
        if isinstance(op.kind, Aggregate)
    }
    wanted = {(w, k) for w in WINDOWS | {"punctuation"} for k in (True, False)}

    assert set() == wanted - seen


def test_operators_with_state_appear_with_and_without_a_key(operators):
    seen = {(type(op.kind), bool(op.state_key)) for op in operators}
    kinds = (Apply, Block, Join, Scan)

    assert set() == {(kind, key) for kind in kinds for key in (True, False)} - seen


def test_streams_appear_with_and_without_a_type(operators):
    maps = [op for op in operators if isinstance(op.kind, Map)]

    assert {True, False} == {op.type is None for op in maps}


def test_no_program_has_a_fault():
    for seed in SEEDS:
        assert () == faults_of(build_graph(program(seed).build()))


@pytest.mark.parametrize("failing", [False, True])
def test_programs_with_clocks_have_all_that_follows_one_and_no_fault(failing):
    made = [program(seed, timed=True, failing=failing) for seed in range(60)]
    text = "".join(map(str, made))
    wanted = {"gap=", "every=", "forget_after=", "in_order()", "within=", "Alarm)"}
    wanted |= {"join_latest", ".map(zoned)", ".map(by_day)", 'unit="s"', "=ab.window_"}
    wanted |= {'late="error"', "FragileAlarm"} if failing else {'late="current"'}

    assert set() == {word for word in wanted if word not in text}
    for generated in made[::4]:
        assert () == faults_of(build_graph(generated.build()))


def test_a_program_gives_the_same_twice():
    for seed in range(needs.count_examples(30, 100)):
        generated = program(seed)
        assert run_sequential(generated) == run_sequential(generated), str(generated)


def test_most_programs_give_something():
    count = needs.count_examples(60, len(SEEDS))
    empty = sum(not any(run_sequential(program(seed))) for seed in range(count))

    assert empty < count // 5


def test_a_seed_is_always_the_same_program():
    assert program(7) == program(7)
    assert program(7) != program(8)


def test_steps_can_be_left_out():
    for seed in range(needs.count_examples(30, 100)):
        graph = build_graph(program(seed, without={"iterate", "join"}).build())
        assert not any(isinstance(op.kind, Iterate | Join) for op in graph)


def test_programs_that_may_fail_go_on_without_what_failed():
    fragile = [program(seed, failing=True) for seed in range(50)]
    for generated in fragile:
        run_sequential(generated)

    assert any("Fragile" in str(generated) for generated in fragile)


def test_a_difference_shows_the_sink_the_item_and_the_program():
    generated = Program(
        "import anabranch as ab\nsinks = [ab.from_iterable([1, 2]).to_list()]\n"
    )

    with pytest.raises(AssertionError, match=r"(?s)item 1: expected 2, got 3.*import"):
        assert_same(generated, lambda sinks: sinks[0].items.extend([1, 3]))


DIFFERENCES = {
    "none": ([1, 2], [1, 2], None),
    "a missing item": ([1, 2], [1], "expected 2 items, got 1"),
    "an item too many": ([1], [1, 2], "expected 1 items, got 2"),
    "another type": ([1], [1.0], "item 0: expected 1, got 1.0"),
}


@pytest.mark.parametrize(
    ("expected", "actual", "text"), DIFFERENCES.values(), ids=DIFFERENCES
)
def test_the_first_difference_is_told(expected, actual, text):
    assert text == first_difference(expected, actual)


def _shape(window) -> str:
    if window.punctuation:
        return "punctuation"
    kind = next(k for k in ("count", "time", "delta") if getattr(window, k) is not None)
    return kind if window.every is None else f"{kind} every"
