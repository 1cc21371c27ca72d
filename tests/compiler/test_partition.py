"""Where rates are dynamic, and when the paper says no."""

import pytest

from anabranch.compiler.make_plan import make_plan
from anabranch.compiler.options import Rules
from anabranch.errors import PlanError
from tests.compiler.notation import program

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
