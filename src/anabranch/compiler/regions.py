"""Find the parallel regions: chains of operators that may be replicated, and why others may not.

The conditions for replicating one operator, whatever its neighbours are.

Section 3.1 of the paper: no state or state per key, one stream in and one stream out;
and, for now, one item at a time.

Whether a growing region may take in the next operator.

Section 3.1 of the paper: the keys must be compatible, the region key being what they
have in common, and it must reach every keyed operator as it was at the entry.

Find the parallel regions: chains of operators that may be replicated.

Regions are formed left to right, as in section 3.3 of the paper: each starts as close
to the sources as it can and takes in operators for as long as every safety condition
holds. A finished region is cut short where something that must be in it stayed outside
(an operator that is fused with one of its own, or that awaits its punctuations), and
keeps only what the engine replicates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import NamedTuple

from anabranch.compiler.fusion import (
    FusedSets,
    find_awaited,
    find_fused_sets,
    find_marked,
    passes_marks,
)
from anabranch.compiler.options import Target
from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.operators.blocks import Block
from anabranch.operators.stateless import Map
from anabranch.python.traits import Evidence, Trait, Traits

ONE_THREAD = "runs once: the sequential engine has one thread"


class Refusal(NamedTuple):
    """Why an operator is not in a region, and the trait that this rests on, if any."""

    text: str
    trait: Trait | None = None


def refusal_of(
    graph: Graph, op: Op, traits: Traits, target: Target | None = None
) -> Refusal | None:
    """Return why an operator cannot be in any region, or None.

    >>> from anabranch.graph.kind import Kind
    >>> op = Op("count", Kind())
    >>> refusal_of(Graph((op,)), op, Traits("global"))
    Refusal(text='has one state for all items', trait='state')
    """
    target = target or Target()
    why = why_not_an_end(op, traits) if target.replicas else ONE_THREAD
    if why is not None:
        return Refusal(why, "order" if _evidence(traits, "order") else None)
    in_groups = target.aligned and is_whole_block(op, traits)
    if target.aligned and (why := why_not_ahead(op, traits)) is not None:
        return Refusal(why, "rate")
    if not in_groups and (why := why_not_by_state(traits)) is not None:
        return Refusal(why, "state")
    if (why := why_not_one_stream(graph, op)) is not None:
        return Refusal(why)
    if not in_groups and (why := why_not_one_item(op, traits)) is not None:
        return Refusal(why, "rate")
    return None


def is_whole_block(op: Op, traits: Traits) -> bool:
    """Tell whether an operator takes several items and keeps nothing between firings.

    Whoever gets all items of a firing can do without those of another.

    >>> pairs = Op("pairs", Block(sum, pop=2, push=1, peek=2))
    >>> is_whole_block(pairs, Traits("global", pop=2))
    True
    """
    return (
        isinstance(op.kind, Block)
        and op.kind.pop == op.kind.peek > 1
        and not op.state_key
        and not traits.effects
    )


def why_not_ahead(op: Op, traits: Traits) -> str | None:
    """Return why an operator that looks ahead has one worker, or None.

    >>> mean = Op("mean", Block(sum, pop=1, push=1, peek=3))
    >>> why_not_ahead(mean, Traits("global"))
    'sees 3 items and takes 1: replicas would need the items of one another'
    """
    kind = op.kind
    if not isinstance(kind, Block) or kind.peek == kind.pop:
        return None
    if op.state_key or traits.effects:
        return None
    return (
        f"sees {kind.peek} items and takes {kind.pop}: "
        f"replicas would need the items of one another"
    )


def why_not_an_end(op: Op, traits: Traits) -> str | None:
    """Return why a source or sink cannot have several workers, or None."""
    if not isinstance(op.kind, SourceKind | SinkKind) or traits.in_parallel:
        return None
    verb = "read" if isinstance(op.kind, SourceKind) else "written"
    return f"can only be {verb} by one worker"


def why_not_by_state(traits: Traits) -> str | None:
    """Return why the state of an operator cannot be divided among replicas, or None.

    A punctuation closes the state of every key, but a replica has only its own keys.
    """
    if traits.state == "global":
        found = _evidence(traits, "state")
        return found.text if found else "has one state for all items"
    if traits.state == "keyed" and not traits.key:
        return "has state per key but no key"
    if traits.state == "keyed" and traits.expects_punctuation:
        return "a punctuation closes its state of every key at once"
    return None


def why_not_one_stream(graph: Graph, op: Op) -> str | None:
    """Return why an operator has more than one entry or exit, or None."""
    if len(op.inputs) > 1:
        return f"brings {len(op.inputs)} streams together"
    if op.kind.outputs > 1:
        return f"divides its input into {op.kind.outputs} streams"
    consumers = len(graph.out_edges(op.name))
    if consumers > 1:
        return f"feeds {consumers} streams"
    return None


def why_not_one_item(op: Op, traits: Traits) -> str | None:
    """Return why an operator needs more than the item at hand, or None."""
    if isinstance(op.kind, Block) and max(op.kind.pop, op.kind.peek) > 1:
        return f"takes {op.kind.pop} items at a time and sees {op.kind.peek}"
    if isinstance(op.kind, SourceKind | SinkKind) or traits.pop == 1:
        return None
    if traits.pop is None:
        return "takes a varying number of items at a time"
    return f"takes {traits.pop} items at a time"


def _evidence(traits: Traits, trait: Trait) -> Evidence | None:
    return next((e for e in traits.evidence if e.trait == trait), None)


@dataclass(frozen=True)
class Front:
    """What must be known of a region to tell which operators may join its end.

    `kept` are the attributes that are still as they were at the entry (None: all),
    `by_range` holds if its source hands out ranges whatever the keys in them, and
    `marked` if punctuations from outside reach its end. While it is `paced`, there are
    but maps and blocks in it; every `period` items that enter, all blocks are complete
    and `gain` items have left for each.
    """

    key: tuple[str, ...] = ()
    kept: frozenset[str] | None = None
    by_range: bool = False
    marked: bool = False
    paced: bool = True
    period: int = 1
    gain: Fraction = Fraction(1)

    def contiguous(self, target: Target) -> bool:
        """Tell whether each replica has a contiguous part of the stream."""
        return not self.key and (self.by_range or target.batched)


def join_key(front: Front, traits: Traits) -> tuple[str, ...]:
    """Return the region key once an operator has joined; empty if there is none.

    >>> join_key(Front(key=("k",)), Traits("keyed", key=("l", "k")))
    ('k',)
    >>> join_key(Front(kept=frozenset({"l"})), Traits("keyed", key=("k", "l")))
    ('l',)

    A coarser key than an operator's own is safe: equal keys still meet in one replica.
    """
    if traits.state != "keyed":
        return front.key
    common = traits.key
    if front.key:
        common = tuple(name for name in front.key if name in traits.key)
    return tuple(name for name in common if front.kept is None or name in front.kept)


def why_not_joined(front: Front, op: Op, traits: Traits, target: Target) -> str | None:
    """Return why an operator cannot go on a region that ends in `front`, or None."""
    if traits.expects_punctuation and front.marked:
        return "acts on punctuations, of which every replica would get a copy"
    if isinstance(op.kind, SourceKind):
        return None
    if is_whole_block(op, traits) and (why := _why_not_in_groups(front, target)):
        return f"takes several items at a time, and {why}"
    if traits.state == "keyed" and (why := _why_not_by_key(front, traits)):
        return why
    if isinstance(op.kind, SinkKind):
        return _why_not_in_order(front, target)
    return None


def join_front(front: Front, op: Op, traits: Traits) -> Front:
    """Return the front of a region after an operator has joined."""
    if isinstance(op.kind, SourceKind):
        key = traits.key if traits.state == "keyed" else ()
        return Front(key=key, by_range=not key, paced=not key)
    kept = front.kept
    if traits.forwards is not None:
        kept = traits.forwards if kept is None else kept & traits.forwards
    return Front(
        join_key(front, traits),
        kept,
        front.by_range,
        front.marked and passes_marks(traits),
        front.paced and isinstance(op.kind, Map | Block),
        *_join_pace(front, op),
    )


def _join_pace(front: Front, op: Op) -> tuple[int, Fraction]:
    """Return the period and the gain of a region once an operator has joined.

    >>> pairs = Op("pairs", Block(sum, pop=2, push=1, peek=2))
    >>> _join_pace(Front(period=3, gain=Fraction(1)), pairs)
    (6, Fraction(1, 2))
    """
    if not isinstance(op.kind, Block) or not front.paced:
        return front.period, front.gain
    entering = int(front.period * front.gain)
    rounds = op.kind.pop // gcd(entering, op.kind.pop)
    return front.period * rounds, front.gain * op.kind.push / op.kind.pop


def _why_not_in_groups(front: Front, target: Target) -> str | None:
    """Return why a block cannot get its items in whole groups at the end of a region.

    Where epochs are cut into ranges, groups are counted where items enter a region.
    """
    if front.key or not front.paced:
        return "what comes to a replica may vary"
    if target.batched and front.by_range:
        return "a source is cut into ranges anywhere"
    if target.batched and front.marked:
        return "punctuations come between them"
    return None


def _why_not_by_key(front: Front, traits: Traits) -> str | None:
    if front.period > 1:
        return f"needs its items by {_list_names(traits.key)}, but they come in groups"
    if front.by_range:
        return (
            f"needs its items by {_list_names(traits.key)}, but they are read by range"
        )
    return None if join_key(front, traits) else _why_no_key(front, traits)


def _why_no_key(front: Front, traits: Traits) -> str:
    own = _list_names(traits.key)
    if front.key and not set(front.key) & set(traits.key):
        return f"keeps state by {own}, which has nothing in common with {_list_names(front.key)}"
    return f"keeps state by {own}, which is not forwarded unchanged to it"


def _why_not_in_order(front: Front, target: Target) -> str | None:
    if front.contiguous(target):
        return None
    if front.key:
        return f"is written in order, but the items are divided by {_list_names(front.key)}"
    return "is written in order, but the items come one by one"


def _list_names(names: tuple[str, ...]) -> str:
    return ", ".join(names)


Refusals = Mapping[str, Refusal]  # operator -> why it is in no region


class Chain(NamedTuple):
    """The operators of a region, its key, before what it ends and why, its period."""

    operators: tuple[str, ...]
    key: tuple[str, ...]
    ends: str
    period: int = 1


class Found(NamedTuple):
    """The regions, left to right, and why each other operator is in none.

    Chains that stay `apart` are not replicated, but are elements like regions.
    """

    chains: tuple[Chain, ...]
    refused: Refusals
    apart: tuple[Chain, ...] = ()


def find_regions(
    graph: Graph, traits: Mapping[str, Traits], target: Target | None = None
) -> Found:
    """Return the parallel regions of a program.

    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kind import Kind
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
        self.refused |= refuse_by_fusion(self.graph, self.fused, self.refused)
        taken: set[str] = set()
        chains: list[Chain] = []
        apart: list[Chain] = []
        for op in self.graph:
            if op.name in taken or op.name in self.refused:
                continue
            chain = self._chain_from(op.name)
            taken.update(chain.operators)
            if self.target.resilient and chain.period > 1:
                why = f"is part of a group of {chain.period} items, and some may fail"
                self.refused |= dict.fromkeys(chain.operators, Refusal(why))
                apart.append(chain)
                continue
            chain = self._without_ends(chain)
            if chain.operators:
                chains.append(chain)
        return Found(tuple(chains), self.refused, tuple(apart))

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
            front = join_front(front, op, of_op)
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

    def _without_ends(self, chain: Chain) -> Chain:
        """Return what the engine replicates of a region; refuse the rest."""
        if self.target.parallel_ends:
            return chain
        ends = {
            name: Refusal(f"is {verb} by one worker on this engine")
            for name in chain.operators
            if (verb := _verb_of(self.graph[name]))
        }
        self.refused |= ends
        fused = {self.fused[name] for name in ends if name in self.fused}
        if any(not ties <= ends.keys() for ties in fused):
            end, refusal = next(iter(ends.items()))
            together = Refusal(f"must be fused with {end}, which {refusal.text}")
            self.refused |= dict.fromkeys(chain.operators, together) | ends
            return Chain((), (), "")
        kept = tuple(name for name in chain.operators if name not in ends)
        last = chain.operators[-1] if chain.operators else ""
        why = f"{last}: {ends[last].text}" if last in ends and kept else chain.ends
        keyed = any(self.traits[name].state == "keyed" for name in kept)
        key = chain.key if keyed else ()
        return chain._replace(operators=kept, key=key, ends=why)

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


def _verb_of(op: Op) -> str | None:
    """Return what workers do at an end of the program; None for all other operators."""
    match op.kind:
        case SourceKind():
            return "read"
        case SinkKind():
            return "written"
    return None


def refuse_by_fusion(graph: Graph, fused: FusedSets, refused: Refusals) -> Refusals:
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
