"""Plans with one thing wrong each, and the words that must name it."""

from dataclasses import replace

import pytest

from anabranch.compiler.make_plan import make_plan
from anabranch.compiler.options import LOCAL
from anabranch.errors import PlanError
from anabranch.graph.kind import Push
from anabranch.plan.integrity import check
from anabranch.plan.plan import ArrayKernel, Subgraph
from tests.compiler.notation import program

KERNEL = ArrayKernel("a", 1, 1, 1, (), (), "", ())


def whole():
    graph, traits = program(
        "src -> x[global] -> a[key=k] -> b[push=0..1] -> c[key=l] -> sink"
    )
    return graph, make_plan(graph, traits)


def with_region(plan, index, **changes):
    regions = list(plan.regions)
    regions[index] = replace(regions[index], **changes)
    return replace(plan, regions=tuple(regions))


def with_operator(plan, name, **changes):
    operators = [replace(o, **changes) if o.name == name else o for o in plan.operators]
    return replace(plan, operators=tuple(operators))


def with_element(plan, index, **changes):
    elements = list(plan.elements)
    elements[index] = replace(elements[index], **changes)
    return replace(plan, elements=tuple(elements))


FAULTS = {
    "an operator in no element": (
        lambda p: replace(p, elements=p.elements[1:]),
        "operator src is in 0 elements",
    ),
    "an operator in two elements": (
        lambda p: replace(p, elements=(*p.elements, p.elements[0])),
        "operator src is in 2 elements",
    ),
    "an operator that is not of the program": (
        lambda p: replace(p, operators=p.operators[1:]),
        "the plan knows the operators",
    ),
    "an operator neither parallel nor sequential": (
        lambda p: replace(p, sequential=p.sequential[1:]),
        "src must be either in a region or sequential",
    ),
    "a region in disorder": (
        lambda p: with_region(p, 0, operators=("b", "a")),
        "r0 does not name its operators in the order",
    ),
    "a region of two parts": (
        lambda p: with_region(p, 0, operators=("a", "sink")),
        "sink is not connected with the rest of r0",
    ),
    "a region that does not know its streams": (
        lambda p: with_region(p, 0, inputs=("src",)),
        "the inputs of r0 are",
    ),
    "a key of which an entry knows nothing": (
        lambda p: with_operator(p, "a", state="stateless"),
        "what enters r0 at a may not have its key",
    ),
    "a region with global state": (
        lambda p: with_operator(p, "a", state="global"),
        "operator a of r0 has one state",
    ),
    "a region key that is not the operator's": (
        lambda p: with_region(p, 0, key=("m",)),
        "the key of r0 is not a part of the key of a",
    ),
    "a key that is changed on the way": (
        lambda p: with_operator(
            with_operator(p, "a", forwards=()), "b", state="keyed", key=("k",)
        ),
        "the key of r0 does not reach b unchanged",
    ),
    "a half of a region in an element": (
        lambda p: with_element(p, 1, operators=("a",)),
        "is only a part of r0",
    ),
    "an element of the wrong region": (
        lambda p: with_element(p, 1, region="r1"),
        "element e1 is of r1",
    ),
    "an element before what it reads": (
        lambda p: replace(p, elements=(p.elements[1], p.elements[0], *p.elements[2:])),
        "element e1 reads from e0, which stands behind it",
    ),
    "a kernel of another subgraph": (
        lambda p: replace(p, subgraphs=(Subgraph(("c",), "", (KERNEL,)),)),
        "kernel a is not of its subgraph",
    ),
    "a source joint without a source": (
        lambda p: with_region(p, 0, first_joint="parallel_source"),
        "r0 starts with a but parallel_source",
    ),
    "a shuffle into a split": (
        lambda p: with_region(p, 1, first_joint="split"),
        "r0 ends with shuffle",
    ),
    "turns for a key": (
        lambda p: with_region(p, 1, ordering="round_robin"),
        "r1 cannot be ordered by round_robin",
    ),
    "numbers without pulses where gaps come from before the shuffle": (
        lambda p: with_region(p, 1, ordering="seqno"),
        "a number may be missing",
    ),
    "strict numbers for repeated ones": (
        lambda p: with_region(p, 0, push=Push(0, None)),
        "a number may come more than once",
    ),
    "no order for a sink that asks for it": (
        lambda p: with_region(p, 1, ordering="none"),
        "r1 has no order, although a consumer needs it",
    ),
    "ranges for a key": (
        lambda p: with_region(p, 0, ordering="contiguous"),
        "its items are divided by key",
    ),
}


@pytest.mark.parametrize(("spoil", "words"), FAULTS.values(), ids=FAULTS)
def test_check_names_what_is_wrong(spoil, words):
    graph, plan = whole()

    with pytest.raises(PlanError, match=words):
        check(graph, spoil(plan))


def test_fused_operators_in_two_elements_are_named():
    graph, traits = program("src -> x[global] -> a -> sink")
    fused, _ = program("src -> x[global] -> a[fuse=x] -> sink")

    with pytest.raises(PlanError, match="a and x are fused"):
        check(fused, make_plan(graph, traits))


def test_a_group_that_is_too_short_for_a_block_is_named():
    graph, traits = program("src -> a[block=2>1] -> b[block=3>1] -> sink")
    plan = make_plan(graph, traits, LOCAL)

    check(graph, plan)
    with pytest.raises(PlanError, match="the groups of r0 are not whole at b"):
        check(graph, with_region(plan, 0, period=4))


def test_a_barrier_whose_streams_part_outside_of_its_region_is_named():
    graph, traits = program(
        "src -> x[global]; x -> a -> j[barrier, global]; x -> b -> j; j -> c -> sink"
    )
    plan = make_plan(graph, traits, LOCAL)

    check(graph, plan)
    with pytest.raises(PlanError, match="the streams of j part outside of r0"):
        check(graph, with_region(plan, 0, operators=("a", "j", "c")))


def test_a_whole_plan_passes():
    check(*whole())


def test_a_stream_has_the_key_by_which_it_enters_elsewhere():
    graph, traits = program("src -> x[global]; x -> a -> u; x -> b[key=k] -> u -> sink")
    plan = make_plan(graph, traits, LOCAL)

    check(graph, plan)
    assert [("a", "b", "u")] == [region.operators for region in plan.regions]
    with pytest.raises(PlanError, match="what enters r0 at a, b may not have its key"):
        check(graph, with_operator(plan, "b", state="stateless"))
