"""Find the parallel regions: chains of operators that may be replicated.

Regions are formed left to right, as in section 3.3 of the paper: each starts as close
to the sources as it can and takes in operators for as long as every safety condition
holds. A finished region is cut short where something that must be in it stayed outside
(an operator that is fused with one of its own, or that awaits its punctuations).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anabranch.analysis.traits import Trait, Traits
from anabranch.compiler.fusion import FusedSets, find_fused_sets
from anabranch.compiler.joining import Front, joined, why_not_joined
from anabranch.compiler.marks import find_awaited, find_marked, passes_marks
from anabranch.compiler.options import Target
from anabranch.compiler.safety import Refusal, refusal_of
from anabranch.graph.graph import Graph

Refusals = Mapping[str, Refusal]  # operator -> why it is in no region


class Chain(NamedTuple):
    """The operators of a region, its key, before what it ends and why, its period."""

    operators: tuple[str, ...]
    key: tuple[str, ...]
    ends: str
    period: int = 1


class Found(NamedTuple):
    """The regions, left to right, and why each other operator is in none."""

    chains: tuple[Chain, ...]
    refused: Refusals


def find_regions(
    graph: Graph, traits: Mapping[str, Traits], target: Target | None = None
) -> Found:
    """Return the parallel regions of a program.

    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kinds import Kind
    >>> ops = [Op("a", Kind())]
    >>> ops += [Op(n, Kind(), (Output(p),)) for p, n in ("ab", "bc", "cd")]
    >>> found = find_regions(Graph(tuple(ops)), {
    ...     "a": Traits("global"), "b": Traits("stateless", forwards=None),
    ...     "c": Traits("keyed", key=("k",)), "d": Traits("global")})
    >>> [chain.operators for chain in found.chains], sorted(found.refused)
    ([('b', 'c')], ['a', 'd'])
    """
    former = _Former(graph, traits, target or Target())
    return former.form()


class _Former:
    """Holds the facts that are computed once, and what has been refused so far."""

    def __init__(
        self, graph: Graph, traits: Mapping[str, Traits], target: Target
    ) -> None:
        self.graph = graph
        self.traits = traits
        self.target = target
        self.fused = find_fused_sets(graph)
        self.marked = find_marked(graph, traits)
        self.awaited = find_awaited(graph, traits)
        refusals = {
            op.name: refusal_of(graph, op, traits[op.name], target) for op in graph
        }
        self.refused = {name: why for name, why in refusals.items() if why is not None}

    def form(self) -> Found:
        self.refused |= refused_by_fusion(self.graph, self.fused, self.refused)
        taken: set[str] = set()
        chains: list[Chain] = []
        for op in self.graph:
            if op.name in taken or op.name in self.refused:
                continue
            chain = self._chain_from(op.name)
            if chain.operators:
                chains.append(chain)
                taken.update(chain.operators)
        return Found(tuple(chains), self.refused)

    def _chain_from(self, head: str) -> Chain:
        """Return the longest safe region that starts with `head`."""
        operators: list[str] = []
        fronts: list[Front] = []
        front = Front(marked=head in self.marked)
        name: str | None = head
        ends = ""
        while name is not None:
            if name in self.refused:
                ends = f"{name}: {self.refused[name].text}"
                break
            op, of_op = self.graph[name], self.traits[name]
            why = why_not_joined(front, op, of_op, self.target)
            if why is not None:
                ends = f"{name}: {why}"
                break
            front = joined(front, op, of_op)
            operators.append(name)
            fronts.append(front)
            name = next(iter(self.graph.consumers(name)), None)
        if not operators:
            of_head = self.traits[head]
            trait: Trait = "punctuation" if of_head.expects_punctuation else "order"
            self.refused[head] = Refusal(ends.removeprefix(f"{head}: "), trait)
            return Chain((), (), ends)
        kept = self._cut(operators)
        if kept < len(operators):
            ends = f"{operators[kept]}: {self.refused[operators[kept]].text}"
        front = fronts[kept - 1] if kept else Front()
        return Chain(tuple(operators[:kept]), front.key, ends, front.period)

    def _cut(self, operators: Sequence[str]) -> int:
        """Return how many operators of a region may stay; refuse what may not."""
        kept = len(operators)
        while kept:
            culprits = self._torn_sets(operators[:kept])
            culprits |= self._leaking_marks(operators[:kept])
            if not culprits:
                break
            self.refused |= culprits
            kept = next(i for i, name in enumerate(operators) if name in culprits)
        return kept

    def _torn_sets(self, operators: Sequence[str]) -> dict[str, Refusal]:
        """Return the operators that are fused with something outside the region."""
        sets = Counter(self.fused[name] for name in operators if name in self.fused)
        torn = [fused for fused, size in sets.items() if size < len(fused)]
        inside = frozenset(operators)
        return {
            name: Refusal(
                f"must be fused with {min(fused - inside)}, "
                "which cannot be in the same region"
            )
            for fused in torn
            for name in fused
        }

    def _leaking_marks(self, operators: Sequence[str]) -> dict[str, Refusal]:
        """Return the operators whose punctuations are awaited outside the region."""
        last = operators[-1]
        if last not in self.awaited:
            return {}
        leaking: dict[str, Refusal] = {}
        for name in reversed(operators):
            if self.traits[name].punctuation == "generating":
                text = f"makes punctuations that are awaited after {last}"
                leaking[name] = Refusal(text, "punctuation")
            if not passes_marks(self.traits[name]):
                break
        return leaking


def refused_by_fusion(graph: Graph, fused: FusedSets, refused: Refusals) -> Refusals:
    """Return the operators that are fused with one that is in no region."""
    culprits: dict[frozenset[str], str] = {}
    for op in graph:
        if op.name in fused and op.name in refused:
            culprits.setdefault(fused[op.name], op.name)
    found: dict[str, Refusal] = {}
    for name, ties in fused.items():
        if name not in refused and ties in culprits:
            culprit = culprits[ties]
            why = f"must be fused with {culprit}: {refused[culprit].text}"
            found[name] = Refusal(why)
    return found
