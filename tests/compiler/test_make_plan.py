"""What holds of the plan of any program."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anabranch as ab
from anabranch.compiler.elements import form_elements
from anabranch.compiler.make_plan import make_plan
from anabranch.compiler.options import Rules, Target
from anabranch.compiler.ordering import order_regions
from anabranch.compiler.regions import Formed, find_regions
from anabranch.plan.integrity import check
from tests import needs
from tests.compiler.brute import unchained, violations
from tests.compiler.generate import programs
from tests.compiler.notation import program
from tests.programs.functions import Event, bump, total

TARGETS = st.builds(Target, batched=st.booleans(), parallel_ends=st.booleans())
THOROUGH = settings(
    max_examples=needs.count_examples(60, 300),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@THOROUGH
@given(programs(), TARGETS)
def test_every_plan_is_whole_and_safe(made, target):
    graph, traits = made

    plan = make_plan(graph, traits, target)

    check(graph, plan)
    assert [] == violations(graph, traits, plan, target)


@THOROUGH
@given(programs(), TARGETS)
def test_by_the_rule_of_the_paper_regions_are_chains(made, target):
    graph, traits = made

    plan = make_plan(graph, traits, target, Rules(chains=True))

    check(graph, plan)
    assert [] == violations(graph, traits, plan, target)
    assert [] == unchained(graph, plan)


@THOROUGH
@given(programs(), TARGETS)
def test_a_pass_run_on_its_own_result_changes_nothing(made, target):
    graph, traits = made
    plan = make_plan(graph, traits, target)
    formed = [Formed(r.operators, r.key, r.ends) for r in plan.regions]

    assert plan == make_plan(graph, traits, target)
    assert set(formed) <= set(find_regions(graph, traits, target).regions)
    assert plan.regions == order_regions(graph, traits, formed, target)
    assert plan.elements == form_elements(graph, plan.regions)


def test_what_is_sequential_has_the_line_that_forces_it():
    plan = make_plan(*program("src -> a -> x[global] -> sink"))
    [found] = [one for one in plan.sequential if one.operator == "x"]

    assert ("x counts", "job.py", 3) == (
        found.why,
        found.reason.file,
        found.reason.line,
    )


def test_threads_compute_exact_windows_in_one_step_and_say_why():
    stream = ab.from_iterable([Event(1, "a", 0, 2)], Event)
    sums = {"n": ab.count(), "total": ab.sum("value")}
    maps, alone = stream.map(bump), stream.window(time=5, on="ts").aggregate(**sums)
    sinks = [
        maps.window(time=5, on="ts").aggregate(**sums, name="exact").to_list(),
        maps.window(time=5, on="ts").aggregate(total, name="a function").to_list(),
        maps.window(count=5).aggregate(**sums, name="by count").to_list(),
        alone.to_list(),
    ]

    plan = ab.compile(*sinks, on="local").plan

    said = [one.operator for one in plan.sequential if "; in one step: " in one.why]
    assert ["exact"] == said
    assert not any(op.in_parts for op in plan.operators)
