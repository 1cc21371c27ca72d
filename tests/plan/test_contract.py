"""The plan is what runs: an engine obeys it or refuses it, and `explain` prints it."""

from __future__ import annotations

from dataclasses import fields, replace
from random import Random
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch import job
from anabranch.cli.console import load_sinks
from anabranch.engines.local.layout import Configuration, lay_out_replicated
from anabranch.engines.local.layout import lay_out as lay_out_locally
from anabranch.engines.local.run import run_bodies_in_parallel
from anabranch.epochs.checkpoint.program import refuse_hidden_state
from anabranch.epochs.layout import lay_out as lay_out_on_spark
from anabranch.errors import CheckpointError, PlanError
from anabranch.graph.kind import Push
from anabranch.job import engine_named
from anabranch.plan.plan import (
    ArrayKernel,
    Body,
    Element,
    Plan,
    PlanOperator,
    Region,
    Sequential,
    Subgraph,
)
from anabranch.runtime.compiled.program import choice_of
from anabranch.runtime.thread import Options
from tests import needs
from tests.apps.test_apps import APPS, NAMES
from tests.programs.generate import write

SHOWN = {  # reasons, for people alone
    *("why", "ends", "reasons", "reason"),
    "one_thread_advice",
}


class Trade(NamedTuple):
    symbol: str
    market: str
    price: float


def raised(trade: Trade) -> Trade:
    return trade._replace(price=trade.price + 1)


def count(state: int, trade: Trade) -> tuple[int, Trade]:
    return state + 1, trade


def double(window: list[float]) -> list[float]:
    return [x * 2.0 for x in window]


def trades() -> ab.Sink:
    stream = ab.from_iterable([Trade("a", "b", 1.0)], Trade, name="src")
    stream = stream.map(raised, name="raised")
    stream = stream.key_by("symbol").scan(count, 0, name="count")
    return stream.key_by("market").scan(count, 0, name="again").to_list(name="out")


def numbers() -> ab.Sink:
    stream = ab.from_iterable([1.0, 2.0], float, name="src")
    stream = stream.block(double, pop=2, push=2, name="double")
    return stream.map(abs, name="abs").to_list(name="out")


def rounds() -> ab.Sink:
    stream = ab.from_iterable([1, 2], int, name="src")
    return stream.iterate(lambda s: s.map(abs), rounds=2, name="rounds").to_list()


def with_body(before, **changes):
    bodies = tuple(replace(body, **changes) for body in before.bodies)
    return replace(before, bodies=bodies)


def laid(on, made, plan):
    """Return everything that an engine makes of a plan, as text."""
    if on == "spark":
        made_of = lay_out_on_spark(made.graph, plan)
        refuse_hidden_state(made_of, plan)
        parts = (made_of.units, made_of.routes, made_of.positions, made_of.one_to_one)
        return str((parts, made_of.choice))
    degrees = {region.name: 2 for region in plan.regions}
    made_of = lay_out_locally(made.graph, plan, Configuration(degrees=degrees))
    fed = run_bodies_in_parallel(made.graph, plan, Options())
    bodies = [op.name for op in fed if getattr(op.kind, "run", None)]
    return str((made_of, choice_of(plan), plan.undivided, bodies))


def with_first(kind, plan, **changes):
    """Return a plan in which the first thing of a kind is another."""
    name = {
        PlanOperator: "operators",
        Region: "regions",
        Element: "elements",
        Sequential: "sequential",
        Subgraph: "subgraphs",
    }[kind]
    first, *rest = getattr(plan, name)
    return replace(plan, **{name: (replace(first, **changes), *rest)})


def with_kernel(plan, **changes):
    (subgraph, *rest) = plan.subgraphs
    (kernel, *others) = subgraph.kernels
    kernels = (replace(kernel, **changes), *others)
    return replace(plan, subgraphs=(replace(subgraph, kernels=kernels), *rest))


def of_operator(plan, name, **changes):
    operators = [replace(o, **changes) if o.name == name else o for o in plan.operators]
    return replace(plan, operators=tuple(operators))


CHANGES = {
    (Plan, "operators"): (trades, lambda p: replace(p, operators=p.operators[1:])),
    (Plan, "subgraphs"): (numbers, lambda p: replace(p, subgraphs=())),
    (Plan, "regions"): (trades, lambda p: replace(p, regions=())),
    (Plan, "sequential"): (trades, lambda p: replace(p, sequential=())),
    (Plan, "elements"): (trades, lambda p: replace(p, elements=())),
    (Plan, "together"): (trades, lambda p: replace(p, together=(("out",),))),
    (Plan, "columns"): (trades, lambda p: replace(p, columns=())),
    (Plan, "bodies"): (rounds, lambda p: replace(p, bodies=())),
    (Body, "operator"): (rounds, lambda p: with_body(p, operator="src")),
    (Body, "plan"): (rounds, lambda p: with_body(p, plan=Plan((), (), (), (), ()))),
    (Plan, "one_thread"): None,  # job.py runs the program sequentially: below
    (Plan, "chains"): None,  # a checkpoint records it: test_region_kind.py
    (PlanOperator, "name"): (trades, lambda p: with_first(PlanOperator, p, name="x")),
    (PlanOperator, "state"): (
        trades,
        lambda p: of_operator(p, "raised", state="global"),
    ),
    (PlanOperator, "key"): (trades, lambda p: of_operator(p, "count", key=("x",))),
    (PlanOperator, "pop"): (trades, lambda p: of_operator(p, "raised", pop=2)),
    (PlanOperator, "push"): (
        trades,
        lambda p: of_operator(p, "count", push=Push(0, 2)),
    ),
    (PlanOperator, "forwards"): (
        trades,
        lambda p: of_operator(
            of_operator(p, "raised", state="keyed", key=("symbol",)), "src", forwards=()
        ),
    ),
    (PlanOperator, "effects"): (
        trades,
        lambda p: of_operator(p, "again", effects=True),
    ),
    (PlanOperator, "runs"): (
        trades,
        lambda p: of_operator(p, "again", runs="python"),
    ),
    (PlanOperator, "lifted"): (
        trades,
        lambda p: of_operator(p, "again", lifted=(("global", "nothing"),)),
    ),
    (PlanOperator, "in_parts"): (
        trades,
        lambda p: of_operator(p, "again", in_parts=True),
    ),
    (Region, "name"): (trades, lambda p: with_first(Region, p, name="x")),
    (Region, "operators"): (trades, lambda p: with_first(Region, p, operators=())),
    (Region, "key"): (trades, lambda p: with_first(Region, p, key=("x",))),
    (Region, "push"): (trades, lambda p: with_first(Region, p, push=Push(0, 2))),
    (Region, "ordering"): (
        trades,
        lambda p: with_first(Region, p, ordering="relaxed"),
    ),
    (Region, "first_joint"): (
        trades,
        lambda p: with_first(Region, p, first_joint="shuffle"),
    ),
    (Region, "last_joint"): (
        trades,
        lambda p: with_first(Region, p, last_joint="merge"),
    ),
    (Region, "inputs"): (trades, lambda p: with_first(Region, p, inputs=("x",))),
    (Region, "outputs"): (trades, lambda p: with_first(Region, p, outputs=("x",))),
    (Region, "period"): (numbers, lambda p: with_first(Region, p, period=4)),
    (Element, "name"): None,  # a name to be shown
    (Element, "operators"): (
        trades,
        lambda p: with_first(Element, p, operators=("x",)),
    ),
    (Element, "region"): (trades, lambda p: with_first(Element, p, region="r1")),
    (Sequential, "operator"): (
        trades,
        lambda p: with_first(Sequential, p, operator="x"),
    ),
    (Subgraph, "operators"): (
        numbers,
        lambda p: with_first(Subgraph, p, operators=("abs",)),
    ),
    (Subgraph, "kernels"): (numbers, lambda p: with_first(Subgraph, p, kernels=())),
    (ArrayKernel, "operator"): (numbers, lambda p: with_kernel(p, operator="abs")),
    (ArrayKernel, "pop"): (numbers, lambda p: with_kernel(p, pop=4)),
    (ArrayKernel, "push"): (numbers, lambda p: with_kernel(p, push=4)),
    (ArrayKernel, "peek"): (numbers, lambda p: with_kernel(p, peek=4)),
    (ArrayKernel, "takes"): (numbers, lambda p: with_kernel(p, takes=())),
    (ArrayKernel, "gives"): (numbers, lambda p: with_kernel(p, gives=())),
    (ArrayKernel, "source"): (numbers, lambda p: with_kernel(p, source="")),
    (ArrayKernel, "constants"): (numbers, lambda p: with_kernel(p, constants=(9.0,))),
}


def test_every_field_of_a_plan_is_looked_at_here():
    kinds = {kind for kind, _ in CHANGES}
    found = {(kind, f.name) for kind in kinds for f in fields(kind)}

    assert found == CHANGES.keys() | {pair for pair in found if pair[1] in SHOWN}


@pytest.mark.parametrize(
    ("program", "change"),
    [case for case in CHANGES.values() if case],
    ids=[f"{kind.__name__}.{name}" for (kind, name), case in CHANGES.items() if case],
)
def test_a_plan_with_another_value_gives_another_layout_or_is_refused(program, change):
    seen = []
    for on in ("local", "spark"):
        made = ab.compile(program(), on=on)
        before = laid(on, made, made.plan)
        try:
            seen.append(before != laid(on, made, change(made.plan)))
        except (PlanError, CheckpointError):
            seen.append(True)

    assert any(seen)


ORDERS = (
    "contiguous",
    "round_robin",
    "seqno",
    "strict",
    "relaxed",
    "position",
    "none",
)


@pytest.mark.parametrize("on", ["local", "spark"])
@pytest.mark.parametrize("ordering", ORDERS)
def test_no_engine_ignores_an_ordering(on, ordering):
    made = ab.compile(trades(), on=on)
    for index, region in enumerate(made.plan.regions):
        regions = list(made.plan.regions)
        regions[index] = replace(region, ordering=ordering)
        changed = replace(made.plan, regions=tuple(regions))
        before = laid(on, made, made.plan)
        if ordering == region.ordering:
            assert before == laid(on, made, changed)
            continue
        try:
            after = laid(on, made, changed)
        except PlanError as error:
            after = f"refused: {error}"
        assert before != after


def test_a_safe_ordering_other_than_the_cheapest_is_obeyed():
    sink = ab.from_iterable([1, 2], int).map(abs).to_list()
    made = ab.compile(sink, on="local")
    (region,) = made.plan.regions

    orders = []
    for ordering in ("round_robin", "seqno", "strict", "relaxed"):
        plan = replace(made.plan, regions=(replace(region, ordering=ordering),))
        orders.append(lay_out_replicated(made.graph, plan).orders["r0"].ordering)

    assert ["round_robin", "seqno", "strict", "relaxed"] == orders


REFUSED = {
    "a plan for Spark on the local engine": (
        "spark",
        "local",
        "region r0 as planned, ordered by contiguous; one thread reads a source",
    ),
    "a plan for the local engine on Spark": (
        "local",
        "spark",
        "region r0 as planned, ordered by strict; what has no key is cut into contiguous",
    ),
}


@pytest.mark.parametrize(("planned", "on", "words"), REFUSED.values(), ids=REFUSED)
def test_an_engine_says_why_it_cannot_run_a_plan(planned, on, words):
    made = ab.compile(trades(), on=planned)

    with pytest.raises(PlanError, match=words):
        laid(on, made, made.plan)


def test_numbers_without_gaps_are_refused_where_items_may_fail():
    made = ab.compile(ab.from_iterable([1], int).map(abs).to_list(), on="local")

    with pytest.raises(PlanError, match="an item that fails leaves a gap"):
        lay_out_locally(made.graph, made.plan, Configuration(), resilient=True)


def test_a_program_of_one_thread_runs_on_the_sequential_engine(monkeypatch):
    used: list[str] = []
    monkeypatch.setattr(job, "engine_named", lambda on: used.append(on) or named(on))
    named = engine_named
    seen: list[int] = []
    source = ab.from_iterable([1, 2, 3], int)
    reads = source.map(lambda n: n + len(seen), name="reads").to_list()
    ran = ab.run(reads, source.for_each(seen.append), on="local")

    assert ran.plan.one_thread
    assert ["sequential"] == used
    assert [1, 3, 5] == reads.items


def orders_of(on, made, *, resilient=False):
    """Return the order of each region in the layout of an engine."""
    if on == "spark":
        return lay_out_on_spark(made.graph, made.plan, resilient=resilient).orders
    lay_out_locally(made.graph, made.plan, Configuration(), resilient=resilient)
    return lay_out_replicated(made.graph, made.plan, resilient=resilient).orders


def assert_printed_is_run(on, made, *, resilient=False):
    """Check that `explain` and `to_dict` tell the orders of the engine's layout."""
    orders = orders_of(on, made, resilient=resilient)
    text = made.explain()
    told = {region["name"]: region for region in made.to_dict()["regions"]}
    assert orders.keys() <= told.keys()
    for name, order in orders.items():
        region = told[name]
        joints = (region["first_joint"], region["last_joint"])
        assert order == (region["order"], *joints)
        (section,) = [s for s in text.split("\n\n") if s.startswith(f"{name}: ")]
        for words in (
            f"    begins with a {order.first_joint.replace('_', ' ')}: ",
            f"    ends with a {order.last_joint.replace('_', ' ')}: ",
            f"    order: {order.ordering}, ",
        ):
            assert words in section


@pytest.mark.parametrize("on", ["local", "spark"])
@pytest.mark.parametrize("name", needs.share(3, NAMES))
def test_an_application_is_explained_as_it_runs(name, on, tmp_path, monkeypatch):
    monkeypatch.setenv("ANABRANCH_DATA", str(tmp_path / "nowhere"))
    monkeypatch.chdir(tmp_path)
    if name == "lane_detection":
        pytest.importorskip("cv2", reason="the application needs it")
    made = ab.compile(*load_sinks(str(APPS / f"{name}.py")), on=on)

    assert_printed_is_run(on, made)
    assert {r.name for r in made.plan.regions} == orders_of(on, made).keys()


@pytest.mark.parametrize("on", ["local", "spark"])
@pytest.mark.parametrize("seed", needs.quick(5, range(15)))
def test_any_program_is_explained_as_it_runs(seed, on):
    made = ab.compile(*write(Random(seed)).build(), on=on)

    assert_printed_is_run(on, made)


def keep(trade: Trade) -> Trade:
    LOG.append(trade)
    return trade


def pairs(window: list[Trade]) -> list[Trade]:
    return window[:1]


LOG: list[Trade] = []
WAYS = {
    "without a key": lambda s: s.map(raised),
    "by key": lambda s: s.key_by("symbol").scan(count, 0),
    "one state": lambda s: s.scan(count, 0),
    "in the driver": lambda s: s.map(keep),
    "in groups": lambda s: s.block(pairs, pop=2, push=1),
    "nothing between": lambda s: s,
    "two streams": lambda s: ab.union(s.map(raised), s.filter(bool)),
}
ENDS = {
    "files": lambda s: s.write_csv("out"),
    "one file": lambda s: s.write_csv("out.csv"),
    "a list": lambda s: s.to_list(),
}


@pytest.mark.parametrize("on_error", ["stop", "skip"])
@pytest.mark.parametrize("on", ["local", "spark"])
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_way_to_a_sink_is_explained_as_it_runs(way, end, on, on_error):
    for source in (
        ab.from_iterable([Trade("a", "b", 1.0)], Trade),
        ab.read_csv("trades.csv", Trade),
        ab.generate(lambda: iter([Trade("a", "b", 1.0)]), Trade),
    ):
        made = ab.compile(end(way(source)), on=on, on_error=on_error)

        assert_printed_is_run(on, made, resilient=on_error != "stop")


def test_one_thread_prints_no_region():
    made = ab.compile(trades(), on="sequential")

    assert () == made.plan.regions
    assert made.explain().startswith("None of the 5 operators can run in parallel.")
