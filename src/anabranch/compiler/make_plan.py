"""The recipe: from a program and its traits to a plan, one pass after the other."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.analysis.traits import Evidence, Traits
from anabranch.compiler.elements import form_elements
from anabranch.compiler.options import Rules, Target
from anabranch.compiler.ordering import order_regions
from anabranch.compiler.partition import find_queues, refuse_dynamic_inside
from anabranch.compiler.regions import Refusals, find_regions
from anabranch.compiler.safety import Refusal
from anabranch.compiler.schedule import schedule
from anabranch.graph.graph import Graph, Op
from anabranch.plan.plan import Operator, Plan, Push, Reason, Sequential


def make_plan(
    graph: Graph,
    traits: Mapping[str, Traits],
    target: Target | None = None,
    rules: Rules | None = None,
) -> Plan:
    """Return the plan of a program whose operators have these traits.

    >>> from anabranch.graph.graph import Output
    >>> from anabranch.graph.kinds import Kind
    >>> g = Graph((Op("a", Kind()), Op("b", Kind(), (Output("a"),))))
    >>> plan = make_plan(g, {"a": Traits("global"), "b": Traits("stateless")})
    >>> [(e.name, e.operators, e.region) for e in plan.elements]
    [('e0', ('a',), None), ('e1', ('b',), 'r0')]
    """
    target, rules = target or Target(), rules or Rules()
    if not rules.dynamic_inside_static:
        refuse_dynamic_inside(graph, traits)
    subgraphs = schedule(graph, traits)
    found = find_regions(graph, traits, target)
    regions = order_regions(graph, traits, found.chains, target, rules)
    elements = form_elements(graph, regions)
    return Plan(
        operators=tuple(_operator(op, traits[op.name]) for op in graph),
        subgraphs=subgraphs,
        regions=regions,
        sequential=_sequential(graph, traits, found.refused),
        elements=elements,
        queues=find_queues(graph, traits),
    )


def _operator(op: Op, traits: Traits) -> Operator:
    return Operator(
        name=op.name,
        state=traits.state,
        key=traits.key,
        pop=traits.pop,
        push=Push(*traits.push),
        forwards=None if traits.forwards is None else tuple(sorted(traits.forwards)),
        reasons=tuple(Reason(*evidence) for evidence in traits.evidence),
        effects=traits.effects,
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
    """Return the line that forces an operator to be sequential, as far as is known."""
    for found in evidence:
        if found.trait == why.trait:
            return Reason(*found)
    if op.site.line == 0:
        return None
    return Reason(why.trait or "shape", why.text, op.site.file, op.site.line)
