"""Compiles a program: its traits, its plan, and both for display.

A verdict of the analysis that a run has refuted is replaced by `refute`: the operator
becomes sequential, for the reason found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from anabranch.compiler.explain import explain
from anabranch.compiler.fusion import find_fused_sets
from anabranch.compiler.make_plan import make_plan
from anabranch.compiler.one_thread import find_changed_items
from anabranch.compiler.options import Rules, Target
from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import Evidence, Traits, why
from anabranch.operators.iterate import Iterate, gather_windows
from anabranch.operators.sources import Given
from anabranch.plan.draw import draw_svg
from anabranch.plan.json import to_dict
from anabranch.plan.plan import Body, Plan, Reason
from anabranch.python.analyze import Analysis, analyze_program
from anabranch.python.sharing import Sharing


def refute(analysis: Analysis, refuted: Mapping[str, Reason]) -> Analysis:
    """Return the analysis with some operators made sequential, for these reasons.

    >>> from anabranch.graph.kind import Traits
    >>> known = Analysis({"count": Traits("stateless")})
    >>> refute(known, {"count": Reason("state", "n has changed", "f.py", 3)}).traits
    ... # doctest: +ELLIPSIS
    {'count': Traits(state='global', ...effects=True...)}
    """
    traits = dict(analysis.traits)
    for name, reason in refuted.items():
        others = tuple(one for one in traits[name].evidence if one.trait != "state")
        found = Evidence("state", reason.text, reason.file, reason.line, "writes")
        traits[name] = replace(
            traits[name],
            state="global",
            key=(),
            effects=True,
            in_parallel=False,
            lifted=(),
            evidence=(found, *others),
        )
    by_text: dict[str, list[str]] = {}
    for name, reason in refuted.items():
        by_text.setdefault(reason.text, []).append(name)
    sharing = tuple(
        Sharing(reader, names[0], text, refuted[reader].file, refuted[reader].line)
        for text, names in by_text.items()
        for reader in names[1:]
    )
    return analysis._replace(traits=traits, sharing=(*analysis.sharing, *sharing))


__all__ = ["Compilation", "Rules", "Target", "compile_graph"]


@dataclass(frozen=True)
class Compilation:
    """A program, its traits, and the decisions about it.

    >>> import anabranch as ab
    >>> made = ab.compile(ab.from_iterable([1, 2]).map(abs).to_list())
    >>> made.traits["map"].state
    'stateless'
    >>> [one["operator"] for one in made.to_dict()["sequential"]]
    ['to_list']
    """

    graph: Graph
    traits: Mapping[str, Traits]
    plan: Plan
    target: Target = field(default_factory=Target)
    rules: Rules = field(default_factory=Rules)
    sharing: tuple[Sharing, ...] = ()

    def __repr__(self) -> str:
        return f"<Compilation of {self.plan.summary}>"

    def _repr_svg_(self) -> str:
        """Return the drawing that a notebook shows: the graph with its regions."""
        return draw_svg(self.graph, self.plan)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as data that `json` can write."""
        return to_dict(self.plan)

    def explain(self) -> str:
        """Return the plan as a text that gives the reasons."""
        return explain(self.graph, self.traits, self.plan, self.target, self.rules)


def compile_graph(
    graph: Graph,
    target: Target | None = None,
    rules: Rules | None = None,
    on_error: Callable[..., Any] | None = None,
    refuted: Mapping[str, Reason] | None = None,
) -> Compilation:
    """Turn a valid program into a parallel plan; `on_error` receives failures, if any.

    `refuted` are operators that a run found to be stateful, against the analysis.

    >>> import anabranch as ab
    >>> from anabranch.language.drafts import build_graph
    >>> sink = ab.from_iterable([1, 2]).map(abs).to_list()
    >>> compilation = compile_graph(build_graph([sink]))
    >>> [region.operators for region in compilation.plan.regions]
    [('from_iterable', 'map')]
    """
    target, rules = target or Target(), rules or Rules()
    analysis = refute(analyze_program(graph, on_error), refuted or {})
    traits = analysis.traits
    sharing = (*analysis.sharing, *find_changed_items(graph, traits))
    traits = {name: choose_lift(one, target) for name, one in traits.items()}
    if not target.batched:
        given = [op.name for op in graph.sources if isinstance(op.kind, Given)]
        traits |= {n: replace(traits[n], in_parallel=False) for n in given}
    graph = _with_copies(graph, traits)
    if target.batched and not rules.chains:
        graph, traits = _divide_rounds(graph, traits, rules)
    plan = make_plan(graph, traits, target, rules, sharing, identity=analysis.identity)
    if target.rounds and not plan.one_thread:
        bodies = _compile_bodies(graph, traits, target, rules)
        graph = _with_bodies(graph, bodies)
        plan = replace(
            plan, bodies=tuple(Body(name, made.plan) for name, made in bodies.items())
        )
    return Compilation(graph, traits, plan, target, rules, sharing)


def _with_copies(graph: Graph, traits: Mapping[str, Traits]) -> Graph:
    """Return a program whose operators know whether to copy their outputs."""
    ops = []
    for op in graph:
        kind = op.kind
        if isinstance(kind, Iterate):
            body = _with_copies(kind.body, analyze_program(kind.body).traits)
            kind = kind if body is kind.body else replace(kind, body=body)
        copied = traits[op.name].copied
        same = kind is op.kind and copied == op.copied
        ops.append(op if same else replace(op, kind=kind, copied=copied))
    same = all(old is new for old, new in zip(graph, ops, strict=True))
    return graph if same else Graph(tuple(ops))


def _divide_rounds(
    graph: Graph, traits: Mapping[str, Traits], rules: Rules
) -> tuple[Graph, Mapping[str, Traits]]:
    """Return a program whose windows are gathered before their rounds run.

    So replicas run the rounds of several windows of an epoch. Without punctuations there
    is one window, whose rounds begin when the stream ends.
    """
    fused = find_fused_sets(graph)
    marked: set[str] = set()
    ops: list[Op] = []
    known = dict(traits)
    for op in graph:
        punctuation = traits[op.name].punctuation
        enters = not marked.isdisjoint(graph.producers(op.name))
        if punctuation == "generating" or (punctuation == "preserving" and enters):
            marked.add(op.name)
        if (
            enters
            and isinstance(op.kind, Iterate)
            and not op.kind.gathered
            and not traits[op.name].effects
            and op.name not in fused
            and op.name not in rules.whole_rounds
        ):
            first, rounds = gather_windows(op, _name_windows(graph, op))
            text = "the rounds of a window need no other window"
            evidence = (why(rounds, "state", text), *traits[op.name].evidence[1:])
            known[op.name] = replace(
                traits[op.name], state="stateless", evidence=evidence
            )
            known[first.name] = first.kind.traits(first)
            ops += [first, rounds]
        else:
            ops.append(op)
    return (graph, traits) if len(ops) == len(graph.ops) else (Graph(tuple(ops)), known)


def _name_windows(graph: Graph, op: Op) -> str:
    """Return a new name for the operator that gathers the windows of another."""
    name = f"{op.name}.windows"
    while name in graph:
        name += "_"
    return name


def _compile_bodies(
    graph: Graph, traits: Mapping[str, Traits], target: Target, rules: Rules
) -> dict[str, Compilation]:
    """Return the bodies of rounds that can run in parallel.

    A body with effects is left to one thread: a failed round is repeated to find what a
    single thread would have met.
    """
    calm = replace(target, resilient=False)  # a failure ends its rounds
    bodies = {
        op.name: compile_graph(op.kind.body, calm, rules)
        for op in graph
        if isinstance(op.kind, Iterate) and not traits[op.name].effects
    }
    return {
        name: made
        for name, made in bodies.items()
        if any(
            made.plan.operators[0].name != inside  # more than the entry
            for region in made.plan.regions
            for inside in region.operators
        )
    }


def _with_bodies(graph: Graph, bodies: Mapping[str, Compilation]) -> Graph:
    """Return a program with the bodies that were planned: their own rounds divided."""
    ops = [
        replace(op, kind=replace(op.kind, body=bodies[op.name].graph))
        if isinstance(op.kind, Iterate) and op.name in bodies
        else op
        for op in graph
    ]
    return Graph(tuple(ops)) if bodies else graph


def choose_lift(traits: Traits, target: Target) -> Traits:
    """Return traits with their state lifted if several processes run the program.

    In one process a global is where it should be.
    """
    if not target.batched:
        return replace(traits, lifted=(), not_lifted="")
    return replace(traits, effects=False) if traits.lifted else traits


def overview(compilation: Compilation) -> dict[str, Any]:
    """Return the dashboard's view of a program before any measurement.

    >>> import anabranch as ab
    >>> made = ab.compile(ab.from_iterable([1, 2]).map(abs).to_list())
    >>> shown = overview(made)
    >>> shown["operators"], shown["parallel"], shown["sequential"][0]["operator"]
    (3, 2, 'to_list')
    """
    graph, plan = compilation.graph, compilation.plan
    data = compilation.to_dict()
    region_of = {
        name: region.name for region in plan.regions for name in region.operators
    }
    return {
        "name": Path(graph.sources[0].site.file).name,
        "drawing": draw_svg(graph, plan),
        "operators": len(plan.operators),
        "parallel": sum(len(region.operators) for region in plan.regions),
        "sequential": data["sequential"],
        "operator_list": [
            {
                "name": one["name"],
                "region": region_of.get(one["name"]),
                "state": one["state"],
                "key": one["key"],
                "runs": one["runs"],
                "why": one["why"],
                "place": str(graph[one["name"]].site),
            }
            for one in data["operators"]
        ],
        "explanation": compilation.explain(),
    }
