import pytest

from anabranch.graph.graph import Graph, Op, Output
from anabranch.language.composites import barrier, split_join, union
from anabranch.language.sources import from_iterable
from anabranch.language.validate import faults_of
from anabranch.operators.blocks import Collect, Deal, duplicate, round_robin
from anabranch.operators.sinks import ToList
from anabranch.operators.sources import FromIterable
from anabranch.operators.stateless import Split
from tests.language.faults import assert_accepted, assert_refused, faults_in


def block(pop, push, peek=None):
    return lambda s: s.block(list, pop=pop, push=push, peek=peek)


BLOCKS_REFUSED = {
    "pop of 0": (block(0, 1), "a block must take items; pop is 0"),
    "a negative push": (block(1, -1), "a block cannot give -1 items"),
    "half a push": (block(1, 0.5), "a block cannot give 0.5 items"),
    "peek below pop": (block(3, 1, 2), "peek is 2 and pop 3"),
}


@pytest.mark.parametrize(
    ("made", "text"), BLOCKS_REFUSED.values(), ids=BLOCKS_REFUSED.keys()
)
def test_blocks_that_are_refused(made, text):
    (fault,) = faults_in(lambda: made(from_iterable([1])).to_list())

    assert text in fault.text


@pytest.mark.parametrize("made", [block(1, 0), block(2, 3), block(1, 1, 8)])
def test_blocks_that_are_accepted(made):
    assert_accepted(lambda: made(from_iterable([1])).to_list())


def one_to_one(stream):
    return stream.map(abs)


def joined(splitter, branches, joiner):
    both = split_join(splitter, branches, joiner)
    return lambda: from_iterable([1]).pipe(both).to_list()


SPLIT_JOINS_REFUSED = {
    "a branch that gives twice as much": (
        joined(duplicate(), [one_to_one, block(1, 2)], round_robin()),
        "its branches give items as 1 : 2, but it takes them as 1 : 1",
        "join with ab.round_robin([1, 2])",
    ),
    "a splitter that deals unevenly": (
        joined(round_robin([2, 1]), [one_to_one, one_to_one], round_robin()),
        "its branches give items as 2 : 1, but it takes them as 1 : 1",
        "join with ab.round_robin([2, 1])",
    ),
    "a longer way": (
        joined(
            duplicate(),
            [lambda s: s.pipe(block(2, 3)).pipe(block(4, 2)), one_to_one],
            round_robin([1, 1]),
        ),
        "its branches give items as 3 : 4, but it takes them as 1 : 1",
        "join with ab.round_robin([3, 4])",
    ),
    "a branch that gives nothing": (
        joined(duplicate(), [one_to_one, block(1, 0)], round_robin()),
        "its branches give items as 1 : 0, but it takes them as 1 : 1",
        "join with ab.round_robin([1, 0])",
    ),
    "too few weights of the joiner": (
        joined(duplicate(), [one_to_one] * 3, round_robin([1, 2])),
        "the joiner has 2 weights for 3 branches",
        "one weight for each branch",
    ),
    "too few weights of the splitter": (
        joined(round_robin([1, 2]), [one_to_one] * 3, round_robin()),
        "the splitter has 2 weights for 3 branches",
        "one weight for each branch",
    ),
    "too many weights of the splitter": (
        joined(round_robin([1, 1, 1]), [one_to_one] * 2, round_robin()),
        "the splitter has 3 weights for 2 branches",
        "one weight for each branch",
    ),
    "negative weights": (
        joined(duplicate(), [one_to_one] * 2, round_robin([1, -1])),
        "must be whole numbers of 0 or more, and not all 0; got [1, -1]",
        "the number of items of its turn",
    ),
    "weights of 0 alone": (
        joined(duplicate(), [one_to_one] * 2, round_robin([0, 0])),
        "not all 0; got [0, 0]",
        "the number of items of its turn",
    ),
}


@pytest.mark.parametrize(
    ("program", "text", "fix"),
    SPLIT_JOINS_REFUSED.values(),
    ids=SPLIT_JOINS_REFUSED.keys(),
)
def test_split_joins_that_are_refused(program, text, fix):
    (fault,) = faults_in(program)

    assert text in fault.text
    assert fix in fault.fix


SPLIT_JOINS_ACCEPTED = {
    "equal branches": joined(duplicate(), [one_to_one] * 3, round_robin()),
    "weights that fit the rates": joined(
        duplicate(), [one_to_one, block(1, 2)], round_robin([1, 2])
    ),
    "a multiple of the weights that fit": joined(
        duplicate(), [one_to_one, block(1, 2)], round_robin([3, 6])
    ),
    "what was dealt unevenly is taken so": joined(
        round_robin([3, 1]), [one_to_one, one_to_one], round_robin([3, 1])
    ),
    "a branch that is left out on both sides": joined(
        round_robin([1, 0]), [one_to_one, one_to_one], round_robin([1, 0])
    ),
    "a branch whose rate is not fixed": joined(
        duplicate(), [one_to_one, lambda s: s.filter(bool)], round_robin()
    ),
    "one within another": joined(
        duplicate(),
        [
            split_join(duplicate(), [one_to_one, one_to_one], round_robin()),
            block(1, 2),
        ],
        round_robin([2, 2]),
    ),
}


@pytest.mark.parametrize(
    "program", SPLIT_JOINS_ACCEPTED.values(), ids=SPLIT_JOINS_ACCEPTED.keys()
)
def test_split_joins_that_are_accepted(program):
    assert_accepted(program)


def test_a_fault_inside_is_not_told_twice():
    """
    Only the joiner whose own branches differ is at fault, at the line that put it in.
    """
    inner = split_join(duplicate(), [one_to_one, block(1, 2)], round_robin())

    def program():
        outer = split_join(
            duplicate(),
            [
                lambda s: s.pipe(inner),  # cause
                one_to_one,
            ],
            round_robin([2, 1]),
        )
        return from_iterable([1]).pipe(outer).to_list()

    assert_refused(program, "its branches give items as 1 : 2")


def test_a_barrier_may_wait_for_a_slower_stream():
    def program():
        numbers = from_iterable([1])
        return barrier(numbers, numbers.block(list, pop=2, push=1)).to_list()

    assert_accepted(program)


def test_independent_sources_cannot_contradict_one_another():
    def program():
        one, two = from_iterable([1]), from_iterable([2]).block(list, pop=1, push=2)
        return union(one, two).to_list()

    assert_accepted(program)


def test_a_split_into_nothing_is_refused():
    ops = (
        Op("source", FromIterable([1])),
        Op("split", Split(abs, 0), (Output("source"),)),
        Op("sink", ToList(), (Output("source"),)),
    )

    (fault,) = faults_of(Graph(ops))
    assert ("split", "split must have 1 or more streams; n is 0") == (
        fault.operator,
        fault.text,
    )


def test_independent_inputs_of_a_joiner_are_accepted():
    ops = (
        Op("a", FromIterable([1])),
        Op("b", FromIterable([1])),
        Op("collect", Collect((1, 2)), (Output("a"), Output("b"))),
        Op("sink", ToList(), (Output("collect"),)),
    )

    assert () == faults_of(Graph(ops))


def test_a_deal_whose_last_branch_is_lost_is_refused():
    ops = (
        Op("a", FromIterable([1])),
        Op("deal", Deal((1, 1)), (Output("a"),)),
        Op("sink", ToList(), (Output("deal"),)),
    )

    (fault,) = faults_of(Graph(ops))
    assert "the splitter has 2 weights for 1 branches" == fault.text
