"""Compile a program: learn its traits, make its plan, and keep both to be shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.analysis.analyze import analyze
from anabranch.analysis.traits import Traits
from anabranch.compiler.explain import explain
from anabranch.compiler.make_plan import make_plan
from anabranch.compiler.options import Rules, Target
from anabranch.graph.graph import Graph
from anabranch.plan.json import to_dict
from anabranch.plan.plan import Plan

__all__ = ["Compilation", "Rules", "Target", "compile_graph"]


@dataclass(frozen=True)
class Compilation:
    """A program, what is known about it, and what was decided.

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

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as data that `json` can write."""
        return to_dict(self.plan)

    def explain(self) -> str:
        """Return the plan as a text that gives the reasons."""
        return explain(self.graph, self.traits, self.plan, self.target, self.rules)


def compile_graph(
    graph: Graph, target: Target | None = None, rules: Rules | None = None
) -> Compilation:
    """Turn a valid program into a parallel plan.

    >>> import anabranch as ab
    >>> from anabranch.graph.drafts import build_graph
    >>> sink = ab.from_iterable([1, 2]).map(abs).to_list()
    >>> compilation = compile_graph(build_graph([sink]))
    >>> [region.operators for region in compilation.plan.regions]
    [('from_iterable', 'map')]
    """
    target, rules = target or Target(), rules or Rules()
    traits = analyze(graph)
    return Compilation(
        graph, traits, make_plan(graph, traits, target, rules), target, rules
    )
