"""The recipe: from a program and its traits to a plan, pass by pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from anabranch.compiler.columns.choose_columns import choose_columns
from anabranch.compiler.elements import form_elements
from anabranch.compiler.fusion import find_giving
from anabranch.compiler.one_thread import (
    OneThread,
    find_together,
    why_one_for_identity,
    why_one_for_silence,
    why_one_thread,
)
from anabranch.compiler.options import Rules, Target
from anabranch.compiler.ordering import order_regions
from anabranch.compiler.regions import Found, Refusals, find_regions
from anabranch.compiler.replicable import Refusal
from anabranch.compiler.static import find_subgraphs, refuse_dynamic_inside
from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import Evidence, SinkKind, Traits
from anabranch.operators.sources import FromIterable, Generate
from anabranch.operators.window_parts import why_not_in_parts
from anabranch.operators.windows import Aggregate
from anabranch.plan.column_kernels import RunsAs
from anabranch.plan.plan import (
    Element,
    Plan,
    PlanOperator,
    Reason,
    Region,
    Sequential,
    Subgraph,
)
from anabranch.python.sharing import Sharing
from anabranch.python.values import Effect

_BY_ITEM = "the sequential engine runs Python, item by item"


def make_plan(
    graph: Graph,
    traits: Mapping[str, Traits],
    target: Target | None = None,
    rules: Rules | None = None,
    sharing: Sequence[Sharing] = (),
    *,
    identity: Mapping[str, Effect] | None = None,
) -> Plan:
    """Return the plan of a program whose operators have these traits.

    >>> from anabranch.graph.graph import Output
    >>> from anabranch.graph.kind import Kind
    >>> g = Graph((Op("a", Kind()), Op("b", Kind(), (Output("a"),))))
    >>> plan = make_plan(g, {"a": Traits("global"), "b": Traits("stateless")})
    >>> [(e.name, e.operators, e.region) for e in plan.elements]
    [('e0', ('a',), None), ('e1', ('b',), 'r0')]
    """
    target, rules = target or Target(), rules or Rules()
    if not rules.dynamic_inside_static:
        refuse_dynamic_inside(graph, traits)
    subgraphs = find_subgraphs(graph, traits)
    found = find_regions(graph, traits, target, rules)
    if target.batched:
        found = _leave_out_sinks(graph, traits, found)
    regions = order_regions(graph, traits, found.regions, target)
    elements = form_elements(graph, regions, found.apart)
    alone = why_one_thread(graph, elements, sharing)
    if target.batched:
        alone = alone or why_one_for_identity(identity or {})
    else:
        alone = alone or why_one_for_silence(graph)
    if alone is not None:
        return _one_thread(graph, traits, subgraphs, alone)
    if not target.replicas:  # nor kernels
        subgraphs = tuple(replace(one, why=_BY_ITEM, kernels=()) for one in subgraphs)
    on_arrays = [k.operator for one in subgraphs for k in one.kernels]
    in_parts = find_in_parts(graph, traits, regions, target)
    steps = in_parts if target.batched else find_in_one_step(graph, regions)
    together = find_together(sharing)
    runs = choose_columns(
        graph,
        traits,
        elements if target.replicas else (),
        target,
        on_arrays=on_arrays,
        together=together,
        in_parts=in_parts,
        in_groups=[region.name for region in regions if region.period > 1],
    )
    return Plan(
        operators=tuple(
            replace(_operator(op, traits[op.name], runs), in_parts=op.name in in_parts)
            for op in graph
        ),
        subgraphs=subgraphs,
        regions=regions,
        sequential=tuple(
            replace(one, why=f"{one.why}; {steps[one.operator]}")
            if one.operator in steps
            else one
            for one in _sequential(graph, traits, found.refused)
        ),
        elements=elements,
        together=together,
        chains=rules.chains,
        columns=tuple(one.kernel for one in runs.values() if one.kernel is not None),
    )


def find_in_parts(
    graph: Graph,
    traits: Mapping[str, Traits],
    regions: Sequence[Region],
    target: Target,
) -> dict[str, str]:
    """Return the unkeyed windows that are computed in two steps, in words.

    The replicas before them have contiguous ranges of the stream. If a run continues
    after errors, a late item must fail by itself.
    """
    if not target.batched:
        return {}
    region_of = {name: region for region in regions for name in region.operators}
    giving = find_giving(graph, traits)
    found: dict[str, str] = {}
    for op in graph:
        if not isinstance(op.kind, Aggregate) or op.state_key or op.name in region_of:
            continue
        producer = op.inputs[0].operator
        region = region_of.get(producer)
        fails = target.resilient and op.kind.window.late == "error"
        if (
            region is not None
            and region.ordering == "contiguous"
            and producer not in giving
            and not fails
            and why_not_in_parts(op.kind) is None
        ):
            found[op.name] = (
                f"in two steps: each replica of {region.name} pre-aggregates its range, "
                f"and one task merges the results"
            )
    return found


def find_in_one_step(graph: Graph, regions: Sequence[Region]) -> dict[str, str]:
    """Return the unkeyed windows that threads could compute in two steps, and why they
    do not, in words.

    docs/local-engine.md has the measurement.
    """
    inside = {name for region in regions for name in region.operators}
    return {
        op.name: "in one step: replicas would need the interpreter's lock as long to "
        "pre-aggregate"
        for op in graph
        if isinstance(op.kind, Aggregate)
        and not op.state_key
        and op.name not in inside
        and not inside.isdisjoint(graph.producers(op.name))
        and why_not_in_parts(op.kind) is None
    }


def _leave_out_sinks(graph: Graph, traits: Mapping[str, Traits], found: Found) -> Found:
    """Leave out sinks behind an element of one task: that task writes them.

    Unless it runs in the driver, which passes its items on to be written.
    """
    inside = {name for formed in found.regions for name in formed.operators}
    alone = {
        formed.operators[0]: formed
        for formed in found.regions
        if isinstance(graph[formed.operators[0]].kind, SinkKind)
        and inside.isdisjoint(graph.producers(formed.operators[0]))
    }
    if not alone:
        return found
    others = [formed for formed in found.regions if formed not in alone.values()]
    regions = order_regions(graph, traits, others)
    elements = form_elements(graph, regions, found.apart)
    refused = {
        sink: Refusal(f"is written by the task of {graph.producers(sink)[0]}")
        for sink in alone
        for element in elements
        if sink in element.operators
        and not any(_in_driver(graph[n], traits[n]) for n in element.operators)
    }
    kept = tuple(one for one in found.regions if one.operators[0] not in refused)
    return found._replace(regions=kept, refused={**found.refused, **refused})


def _in_driver(op: Op, traits: Traits) -> bool:
    """Tell whether an operator keeps its element in the driver."""
    return traits.effects and not isinstance(op.kind, FromIterable | Generate)


def _one_thread(
    graph: Graph,
    traits: Mapping[str, Traits],
    subgraphs: Sequence[Subgraph],
    why: OneThread,
) -> Plan:
    """Return the plan of a program that runs sequentially."""
    text = f"the whole program runs as one thread: {why.text}"
    refusals = {op.name: Refusal(text) for op in graph}
    by_state = {
        name: Refusal(of_op.evidence[0].text, "state")
        for name, of_op in traits.items()
        if of_op.effects and of_op.evidence and of_op.evidence[0].trait == "state"
    }
    return Plan(
        operators=tuple(_operator(op, traits[op.name], {}) for op in graph),
        subgraphs=tuple(replace(each, why=text, kernels=()) for each in subgraphs),
        regions=(),
        sequential=_sequential(graph, traits, {**refusals, **by_state}),
        elements=(Element("e0", graph.names, None),),
        one_thread=why.text,
        one_thread_advice=why.advice,
    )


def _operator(op: Op, traits: Traits, runs: Mapping[str, RunsAs]) -> PlanOperator:
    way = runs.get(op.name)
    return PlanOperator(
        name=op.name,
        state=traits.state,
        key=traits.key,
        pop=traits.pop,
        push=traits.push,
        forwards=None if traits.forwards is None else tuple(sorted(traits.forwards)),
        reasons=tuple(Reason(*evidence[:4]) for evidence in traits.evidence),
        effects=traits.effects,
        runs="python" if way is None else way.runs,
        why="" if way is None else way.why,
        lifted=tuple((place.scope, place.name) for place in traits.lifted),
    )


def _sequential(
    graph: Graph, traits: Mapping[str, Traits], refused: Refusals
) -> tuple[Sequential, ...]:
    return tuple(
        Sequential(op.name, why.text, _reason(op, traits[op.name].evidence, why))
        for op in graph
        if (why := refused.get(op.name)) is not None
    )


def _reason(op: Op, evidence: tuple[Evidence, ...], why: Refusal) -> Reason | None:
    """Return the line that makes an operator sequential, as far as known."""
    for found in evidence:
        if found.trait == why.trait:
            return Reason(*found[:4])
    if op.site.line == 0:
        return None
    return Reason(why.trait or "shape", why.text, op.site.file, op.site.line)
