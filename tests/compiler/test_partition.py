"""Where rates are dynamic, where that takes a queue, and when the paper says no."""

import pytest

from anabranch.compiler.make_plan import make_plan
from anabranch.compiler.options import Rules
from anabranch.compiler.partition import find_queues
from anabranch.errors import PlanError
from tests.compiler.notation import program

QUEUES = {
    "fixed rates need none": ("src -> a[block=1>2] -> b[block=3>1] -> sink", ""),
    "who takes one by one needs none": ("src -> f[push=0..1] -> b -> sink", ""),
    "not even behind any number": ("src -> f[push=0..*] -> b -> sink", ""),
    "a block behind a filter needs one": (
        "src -> f[push=0..1] -> b[block=4>1] -> sink",
        "f b",
    ),
    "who waits by himself needs none": ("src -> f[push=0..1] -> b[pop=*] -> sink", ""),
}


@pytest.mark.parametrize(("text", "expected"), QUEUES.values(), ids=QUEUES)
def test_queues(text, expected):
    graph, traits = program(text)

    found = find_queues(graph, traits)

    assert expected == "; ".join(f"{q.producer} {q.consumer}" for q in found)


def test_a_queue_says_why():
    graph, traits = program("src -> f[push=0..1] -> b[block=4>1] -> sink")

    (queue,) = make_plan(graph, traits).queues

    assert queue.why == "f gives 0 to 1 items at a time, b takes 4"


INVALID = [
    "src -> x; x -> a -> u; x -> f[push=0..1] -> b -> u -> sink",
    "src -> x; x -> a -> y[pop=*] -> u; x -> u -> sink",
]
VALID = [
    "src -> a -> f[push=0..1] -> b -> sink",
    "src -> f[push=0..1]; f -> a -> u; f -> b -> u -> sink",
]


@pytest.mark.parametrize("text", INVALID)
def test_the_paper_refuses_a_dynamic_stream_within_a_static_part(text):
    graph, traits = program(text)

    make_plan(graph, traits)
    with pytest.raises(PlanError, match="must be fixed, since fixed rates connect"):
        make_plan(graph, traits, rules=Rules(dynamic_inside_static=False))


@pytest.mark.parametrize("text", VALID)
def test_other_dynamic_streams_are_as_good_in_the_paper(text):
    graph, traits = program(text)

    strict = make_plan(graph, traits, rules=Rules(dynamic_inside_static=False))

    assert make_plan(graph, traits).regions == strict.regions
