"""Finds the parallel regions: parts of the graph that may be replicated as a whole.

Conditions for adding an operator to a growing region:

Section 3.1 of the paper: the keys must be compatible, the region key being their
intersection, and it must reach every keyed operator unchanged from the entry, on every
path.

Regions are formed left to right, as in section 3.3 of the paper: each starts as close
to the sources as possible and grows as long as every safety condition holds. An
operator with several inputs joins the regions before it if it can. Operators that would
have to be in a region but are not (one fused with a member, or one that awaits its
punctuations) cause a refusal, and the regions are formed again. A finished region keeps
only what the engine replicates.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import gcd
from typing import NamedTuple

from anabranch.compiler.fusion import (
    FusedSets,
    find_awaited,
    find_fused_sets,
    find_giving,
    passes_marks,
)
from anabranch.compiler.options import Rules, Target
from anabranch.compiler.replicable import (
    Refusal,
    is_clock,
    is_whole_block,
    refusal_of,
    why_not_one_stream,
)
from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import SinkKind, SourceKind, Trait, Traits
from anabranch.operators.blocks import Block
from anabranch.operators.clock import EventTime
from anabranch.operators.fan_in import Union
from anabranch.operators.rates import find_paired
from anabranch.operators.stateless import Map


@dataclass(frozen=True)
class Front:
    """The facts about a stream of a region that decide which operators may join it.

    `kept` are the attributes unchanged since the entry (None: all), `by_range` if a
    source hands out ranges regardless of keys, or a clock goes from one range to the
    next, and `marked` if punctuations from outside reach it. While it is `paced`, it
    has only maps and blocks; after every `period` items that enter, all blocks are
    complete and `gain` items have left for each.
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


def meet(fronts: Sequence[Front], key: tuple[str, ...]) -> Front:
    """Combine the facts about several streams of a region with this key.

    >>> meet([Front(kept=frozenset({"k", "l"})), Front(kept=frozenset({"k"}))], ()).kept
    frozenset({'k'})
    """
    if len(fronts) == 1:
        return replace(fronts[0], key=key)
    known = [front.kept for front in fronts if front.kept is not None]
    return Front(
        key,
        kept=frozenset.intersection(*known) if known else None,
        by_range=any(front.by_range for front in fronts),
        marked=any(front.marked for front in fronts),
        paced=False,
        period=max(front.period for front in fronts),
    )


def join_key(front: Front, traits: Traits) -> tuple[str, ...]:
    """Return the region key after an operator has joined; empty if there is none.

    >>> join_key(Front(key=("k",)), Traits("keyed", key=("l", "k")))
    ('k',)
    >>> join_key(Front(kept=frozenset({"l"})), Traits("keyed", key=("k", "l")))
    ('l',)

    A key coarser than an operator's own is safe: equal keys still meet in one replica.
    """
    if traits.state != "keyed":
        return front.key
    common = traits.key
    if front.key:
        common = tuple(name for name in front.key if name in traits.key)
    return tuple(name for name in common if front.kept is None or name in front.kept)


def why_not_joined(front: Front, op: Op, traits: Traits, target: Target) -> str | None:
    """Return why an operator cannot extend a region whose stream is `front`, or
    None.
    """
    if traits.expects_punctuation and front.marked:
        return "acts on punctuations, of which every replica would get a copy"
    if isinstance(op.kind, SourceKind):
        return None
    if is_whole_block(op, traits) and (why := _why_not_in_groups(front, target)):
        return f"takes several items at a time, and {why}"
    if traits.state == "keyed" and (why := _why_not_by_key(front, traits, target)):
        return why
    if isinstance(op.kind, SinkKind):
        return None if traits.unordered else _why_not_in_order(front, target)
    return None


def join_front(front: Front, op: Op, traits: Traits, *, single: bool = True) -> Front:
    """Return the front after an operator has joined; a `single` stream leaves it."""
    if isinstance(op.kind, SourceKind):
        key = traits.key if traits.state == "keyed" else ()
        return Front(key=key, by_range=not key, paced=not key)
    kept = front.kept
    if traits.forwards is not None:
        kept = traits.forwards if kept is None else kept & traits.forwards
    return Front(
        join_key(front, traits),
        kept,
        front.by_range or isinstance(op.kind, EventTime),
        front.marked and passes_marks(traits),
        front.paced and single and isinstance(op.kind, Map | Block),
        *_join_pace(front, op),
    )


def _join_pace(front: Front, op: Op) -> tuple[int, Fraction]:
    """Return the period and the gain of a region after an operator has joined.

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

    If epochs are cut into ranges, groups are counted where items enter a region.
    """
    if front.key or not front.paced:
        return "the number of items at a replica may vary"
    if target.batched and front.by_range:
        return "a source is cut into ranges anywhere"
    if target.batched and front.marked:
        return "punctuations come between them"
    return None


def _why_not_by_key(front: Front, traits: Traits, target: Target) -> str | None:
    """Return why an operator cannot get its items by key in a region, or None.

    Behind a source, work without a key is dealt evenly, whatever the keys: by ranges if
    replicas read them, else in turn.
    """
    if front.period > 1:
        return f"needs its items by {_list_names(traits.key)}, but they come in groups"
    if front.by_range:
        way = "read by range" if target.parallel_ends else "dealt in turn"
        return f"needs its items by {_list_names(traits.key)}, but they are {way}"
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
        return f"is written in order, but items are partitioned by {_list_names(front.key)}"
    return "is written in order, but the items come one by one"


def _list_names(names: tuple[str, ...]) -> str:
    return ", ".join(names)


Refusals = Mapping[str, Refusal]  # operator -> why it is in no region


class Formed(NamedTuple):
    """The operators of a region, its key, where it ends and why, its period."""

    operators: tuple[str, ...]
    key: tuple[str, ...]
    ends: str
    period: int = 1


class Found(NamedTuple):
    """The regions, producers first, and why each other operator is in none.

    Chains that stay `apart` are not replicated, but are elements like regions.
    """

    regions: tuple[Formed, ...]
    refused: Refusals
    apart: tuple[Formed, ...] = ()


def find_regions(
    graph: Graph,
    traits: Mapping[str, Traits],
    target: Target | None = None,
    rules: Rules | None = None,
) -> Found:
    """Return the parallel regions of a program.

    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kind import Kind
    >>> ops = [Op("a", Kind())]
    >>> ops += [Op(n, Kind(), (Output(p),)) for p, n in ("ab", "bc", "cd")]
    >>> found = find_regions(Graph(tuple(ops)), {
    ...     "a": Traits("global"), "b": Traits("stateless", forwards=None),
    ...     "c": Traits("keyed", key=("k",)), "d": Traits("global")})
    >>> [region.operators for region in found.regions], sorted(found.refused)
    ([('b', 'c')], ['a', 'd'])
    """
    return _Former(graph, traits, target or Target(), rules or Rules()).form()


@dataclass(eq=False)
class _Growing:
    """A growing region.

    `fronts` are after each of its operators, and `entries` the operators through which
    items enter it on their way to each. Entries in `open` lead to no keyed operator.
    """

    operators: list[str]
    key: tuple[str, ...] = ()
    fronts: dict[str, Front] = field(default_factory=dict)
    entries: dict[str, frozenset[str]] = field(default_factory=dict)
    open: frozenset[str] = frozenset()
    source: str | None = None
    sink: str | None = None
    single: bool = True  # it is a chain
    ends: dict[str, str] = field(default_factory=dict)

    @property
    def period(self) -> int:
        return self.fronts[self.operators[-1]].period if self.fronts else 1


class _Former:
    """Holds the facts that are computed once, and the refusals so far."""

    def __init__(
        self,
        graph: Graph,
        traits: Mapping[str, Traits],
        target: Target,
        rules: Rules,
    ) -> None:
        self.graph = graph
        self.traits = traits
        self.target = target
        self.fused = find_fused_sets(graph)
        self.giving = find_giving(graph, traits)
        self.awaited = find_awaited(graph, traits)
        self.place = {name: place for place, name in enumerate(graph.names)}
        self.anew: set[frozenset[str]] = set()  # fused sets that begin a region
        self.first = {  # clocks that begin a region
            op.name for op in graph if isinstance(op.kind, EventTime) and target.batched
        }
        # An item that fails on one way would shift all pairs behind it.
        alone = target.resilient or rules.chains
        self.paired = {} if alone else find_paired(graph)
        refusals = {
            op.name: refusal_of(
                graph, op, traits[op.name], target, rules, paired=self.paired
            )
            for op in graph
        }
        self.refused = {name: why for name, why in refusals.items() if why is not None}
        self.drafts: dict[str, _Growing] = {}

    def form(self) -> Found:
        self.refused |= refuse_by_fusion(self.graph, self.fused, self.refused)
        while True:
            lasting = dict(self.refused)
            drafts = self._draft_all()
            torn = self._torn_sets(drafts)
            if torn.keys() - self.anew:
                self.anew |= torn.keys()
                self.refused = lasting
                continue
            inner = self._inner_clocks(drafts)
            if inner:
                self.first |= inner
                self.refused = lasting
                continue
            culprits = self._refuse_torn(torn) | self._leaking_marks(drafts)
            culprits |= self._idle_unions(drafts)
            if not culprits:
                break
            self.refused = lasting | culprits
        regions: list[Formed] = []
        apart: list[Formed] = []
        for draft in self._producers_first(drafts):
            whole = self._finish(draft)
            grouped = self.target.resilient and whole.period > 1
            # The whole may have a period that a part of it does not have.
            for chain in [whole] if grouped else self._without_ends(draft, whole):
                if self.target.resilient and chain.period > 1:
                    why = (
                        f"is part of a group of {chain.period} items, and some may fail"
                    )
                    self.refused |= dict.fromkeys(chain.operators, Refusal(why))
                    apart.append(chain)
                else:
                    regions.append(chain)
        return Found(tuple(regions), self.refused, tuple(apart))

    def _draft_all(self) -> list[_Growing]:
        """Put every operator that is not refused into a region, left to right."""
        self.drafts = {}
        for op in self.graph:
            if op.name in self.refused:
                self._end_before(op, self.refused[op.name].text)
            else:
                self._place(op)
        found = {id(draft): draft for draft in self.drafts.values()}
        return sorted(found.values(), key=lambda d: self.place[d.operators[0]])

    def _place(self, op: Op) -> None:
        """Add an operator to the regions before it, or to one of them, or start one."""
        before = self._drafts_before(op)
        tried = [before] if before else []
        if len(before) > 1:
            tried += [[one] for one in before]
        first_why = ""
        for drafts in tried:
            why = self._join(drafts, op)
            if why is None:
                kept = {id(self.drafts[op.name])}
                for other in before:
                    if first_why and id(other) not in kept | set(map(id, drafts)):
                        other.ends[op.name] = first_why
                return
            first_why = first_why or why
        why = self._join([], op)
        self._end_before(op, first_why or why or "")
        if why is not None:
            of_op = self.traits[op.name]
            trait: Trait = "punctuation" if of_op.expects_punctuation else "order"
            self.refused[op.name] = Refusal(why, trait)

    def _drafts_before(self, op: Op) -> list[_Growing]:
        before = [
            self.drafts[name]
            for name in self.graph.producers(op.name)
            if name in self.drafts
        ]
        return list({id(draft): draft for draft in before}.values())

    def _end_before(self, op: Op, why: str) -> None:
        for draft in self._drafts_before(op):
            draft.ends[op.name] = why

    def _join(self, drafts: list[_Growing], op: Op) -> str | None:
        """Join an operator and some regions into one region; return why not, or
        None.
        """
        of_op = self.traits[op.name]
        inside = [
            output.operator
            for output in op.inputs
            if any(self.drafts.get(output.operator) is draft for draft in drafts)
        ]
        outside = [out.operator for out in op.inputs if out.operator not in inside]
        key, why = _common_key(drafts)
        if drafts and op.name in self.first:
            why = (
                why
                or "its clock continues from earlier ranges, which other replicas read"
            )
        why = why or self._why_not_whole(drafts, op) or self._why_apart(drafts)
        why = why or self._why_torn_pairs(drafts, op)
        if why is not None:
            return why
        fronts = [self.drafts[name].fronts[name] for name in dict.fromkeys(inside)]
        if outside or not fronts:
            marked = not self.giving.isdisjoint(outside)
            fronts.append(Front(marked=marked))
        front = meet(fronts, key)
        several = len(drafts) > 1 or bool(drafts and outside)
        why = (
            why_not_joined(front, op, of_op, self.target)
            or (_why_not_together(drafts, front, self.target) if several else None)
            or (self._why_not_divided(front, op) if front.period > 1 else None)
        )
        if why is not None:
            return why
        new = frozenset({op.name} if outside or not inside else ())
        entries = new.union(*(self.drafts[name].entries[name] for name in inside))
        open_ones = new.union(*(draft.open for draft in drafts))
        if of_op.state == "keyed":
            open_ones -= entries
        behind = join_front(front, op, of_op, single=not _has_branches(self.graph, op))
        without = self._find_without_key(drafts, op, entries, open_ones)
        why = _why_not_keyed(drafts, behind.key, without if behind.key else open_ones)
        if why is None and self._leads_back(drafts, op, several=several):
            why = "its input passes through an operator behind the region"
        if why is not None:
            return why
        self._merge(drafts, op, behind, entries, open_ones)
        return None

    def _find_without_key(
        self,
        drafts: list[_Growing],
        op: Op,
        entries: frozenset[str],
        open_ones: frozenset[str],
    ) -> frozenset[str]:
        """Return the entries where items may come in that have no key.

        A stream that also leads to an operator with a key, by another entry, has one.
        """
        if not open_ones:
            return open_ones
        inside = {op.name, *(name for draft in drafts for name in draft.operators)}
        every = entries.union(*(e for d in drafts for e in d.entries.values()))
        coming = {
            name: {o for o in self.graph[name].inputs if o.operator not in inside}
            for name in every
        }
        known = {stream for name in every - open_ones for stream in coming[name]}
        return frozenset(
            name for name in open_ones if not (coming[name] and coming[name] <= known)
        )

    def _merge(
        self,
        drafts: list[_Growing],
        op: Op,
        behind: Front,
        entries: frozenset[str],
        open_ones: frozenset[str],
    ) -> None:
        """Put an operator and some regions into the largest of these."""
        draft = max(drafts, key=lambda d: len(d.operators), default=_Growing([]))
        for other in drafts:
            if other is not draft:
                draft.operators += other.operators
                draft.fronts |= other.fronts
                draft.entries |= other.entries
                draft.ends |= other.ends
                draft.sink = draft.sink or other.sink
                draft.source = draft.source or other.source
                self.drafts |= dict.fromkeys(other.operators, draft)
        chain = draft.single and why_not_one_stream(self.graph, op) is None
        draft.single = chain and len(drafts) <= 1
        draft.operators.append(op.name)
        if len(drafts) > 1:
            draft.operators.sort(key=self.place.__getitem__)
        draft.key = behind.key
        draft.fronts[op.name] = behind
        draft.entries[op.name] = entries
        draft.open = open_ones
        draft.ends.pop(op.name, None)
        if isinstance(op.kind, SinkKind) and not self.traits[op.name].unordered:
            draft.sink = op.name
        if isinstance(op.kind, SourceKind):
            draft.source = op.name
        self.drafts[op.name] = draft

    def _why_not_whole(self, drafts: list[_Growing], op: Op) -> str | None:
        """Return why an operator of a fused set that begins a region must not join."""
        ties = self.fused.get(op.name)
        if ties is None or ties not in self.anew or not drafts:
            return None
        begun = [self.drafts[name] for name in ties if name in self.drafts]
        if begun and any(begun[0] is draft for draft in drafts):
            return None
        others = sorted(ties - {op.name}, key=self.place.__getitem__)
        return f"must be fused with {others[0]}, which cannot be in the same region"

    def _why_apart(self, drafts: list[_Growing]) -> str | None:
        """Return why regions cannot become one: the stream between them is
        repartitioned.
        """
        if len(drafts) < 2:  # noqa: PLR2004
            return None
        for draft in drafts:
            for name in draft.operators:
                for producer in self.graph.producers(name):
                    before = self.drafts.get(producer, draft)
                    if before is not draft and any(before is d for d in drafts):
                        return f"its inputs are repartitioned between {producer} and {name}"
        return None

    def _why_torn_pairs(self, drafts: list[_Growing], op: Op) -> str | None:
        """Return why what comes together at an operator is not of one item, or None."""
        inside = {name for draft in drafts for name in draft.operators}
        missing = self.paired.get(op.name, frozenset()) - inside
        if not missing:
            return None
        first = min(missing, key=self.place.__getitem__)
        return f"needs its streams item by item, but {first} is in no region with it"

    def _why_not_divided(self, front: Front, op: Op) -> str | None:
        why = why_not_one_stream(self.graph, op)
        return why and f"{why}, but items come {front.period} at a time"

    def _leads_back(self, drafts: list[_Growing], op: Op, *, several: bool) -> bool:
        """Tell whether something outside lies between two operators of a region."""
        chain = all(draft.single for draft in drafts)
        if not several and (chain or not self.fused):
            return False
        inside = {op.name, *(name for draft in drafts for name in draft.operators)}
        for name in tuple(inside):
            inside |= self.fused.get(name, frozenset())
        pending = [n for name in inside for n in self.graph.consumers(name)]
        seen: set[str] = set()
        while pending:
            name = pending.pop()
            if name in inside or name in seen:
                continue
            seen.add(name)
            draft = self.drafts.get(name)
            beside = {
                name,
                *self.fused.get(name, ()),
                *(draft.operators if draft else ()),
            }
            if not beside.isdisjoint(inside):
                return True
            following = [n for one in beside for n in self.graph.consumers(one)]
            if not inside.isdisjoint(following):
                return True
            pending += following
        return False

    def _torn_sets(self, drafts: Sequence[_Growing]) -> dict[frozenset[str], str]:
        """Return the fused sets split by a region, with the missing operators."""
        torn: dict[frozenset[str], str] = {}
        for draft in drafts:
            sets = Counter(
                self.fused[name] for name in draft.operators if name in self.fused
            )
            for ties, size in sets.items():
                if size < len(ties):
                    missing = ties.difference(draft.operators)
                    torn.setdefault(ties, min(missing, key=self.place.__getitem__))
        return torn

    def _inner_clocks(self, drafts: Sequence[_Growing]) -> set[str]:
        """Return the operators that keep clocks inside a region with ranges of the
        stream.

        The clocks of earlier ranges are known only where items enter a region.
        """
        return {
            name
            for draft in drafts
            if self.target.batched and not draft.key
            for name in draft.operators
            if is_clock(self.graph[name], self.traits[name])
            if not set(draft.operators).isdisjoint(self.graph.producers(name))
        }

    def _refuse_torn(self, torn: Mapping[frozenset[str], str]) -> dict[str, Refusal]:
        return {
            name: Refusal(
                f"must be fused with {missing if name != missing else _other(ties, name)}, "
                "which cannot be in the same region"
            )
            for ties, missing in torn.items()
            for name in ties
        }

    def _leaking_marks(self, drafts: Sequence[_Growing]) -> dict[str, Refusal]:
        """Return the operators whose punctuations are awaited outside the region."""
        leaking: dict[str, Refusal] = {}
        for draft in drafts:
            inside = frozenset(draft.operators)
            for last in draft.operators:
                if not any(
                    self._awaits(name)
                    for name in self.graph.consumers(last)
                    if name not in inside
                ):
                    continue
                text = f"makes punctuations that are awaited after {last}"
                for name in self._makers(last, inside):
                    leaking[name] = Refusal(text, "punctuation")
        return leaking

    def _idle_unions(self, drafts: Sequence[_Growing]) -> dict[str, Refusal]:
        """Return the fan-ins of regions that contain nothing else.

        They pay off only if replicas on both sides avoid a merge.
        """
        idle: dict[str, Refusal] = {}
        for draft in drafts:
            unions = [
                name
                for name in draft.operators
                if not self.graph[name].kind.user_code
                and (
                    name in self.paired
                    or (
                        isinstance(self.graph[name].kind, Union)
                        and self.traits[name].state == "stateless"
                    )
                )
            ]
            others = set(draft.operators).difference(unions)
            if not unions or any(_verb_of(self.graph[name]) is None for name in others):
                continue
            before = {n for name in unions for n in self.graph.producers(name)}
            before.difference_update(draft.operators)
            spared = draft.sink is not None and before <= self.drafts.keys()
            if not spared or not self.target.parallel_ends:
                idle |= dict.fromkeys(unions, Refusal("only passes items on"))
        return idle

    def _awaits(self, name: str) -> bool:
        of_op = self.traits[name]
        return of_op.expects_punctuation or (
            passes_marks(of_op) and name in self.awaited
        )

    def _makers(self, last: str, inside: frozenset[str]) -> Iterable[str]:
        """Return the operators of a region whose punctuations leave it after `last`."""
        pending, seen = [last], {last}
        while pending:
            name = pending.pop()
            if self.traits[name].punctuation == "generating":
                yield name
            if passes_marks(self.traits[name]):
                before = inside.intersection(self.graph.producers(name)) - seen
                seen |= before
                pending += before

    def _producers_first(self, drafts: Sequence[_Growing]) -> list[_Growing]:
        """Return regions ordered so that each follows those that lead to it."""
        groups: dict[str, tuple[str, ...]] = {}
        for name in self.graph.names:
            draft = self.drafts.get(name)
            ties = self.fused.get(name, frozenset({name}))
            groups[name] = tuple(draft.operators) if draft else tuple(ties)
        first = {
            name: min(group, key=self.place.__getitem__)
            for name, group in groups.items()
        }
        after: dict[str, list[str]] = {name: [] for name in first.values()}
        waiting = dict.fromkeys(after, 0)
        for edge in self.graph.edges:
            one, two = first[edge.producer.operator], first[edge.consumer.operator]
            if one != two:
                after[one].append(two)
                waiting[two] += 1
        ready = [self.place[name] for name, count in waiting.items() if count == 0]
        heapq.heapify(ready)
        by_head = {first[draft.operators[0]]: draft for draft in drafts}
        ordered: list[_Growing] = []
        while ready:
            name = self.graph.names[heapq.heappop(ready)]
            if name in by_head:
                ordered.append(by_head[name])
            for following in after[name]:
                waiting[following] -= 1
                if waiting[following] == 0:
                    heapq.heappush(ready, self.place[following])
        return ordered

    def _finish(self, draft: _Growing) -> Formed:
        ends = sorted(draft.ends, key=self.place.__getitem__)
        text = "; ".join(f"{name}: {draft.ends[name]}" for name in ends)
        return Formed(tuple(draft.operators), draft.key, text, draft.period)

    def _without_ends(self, draft: _Growing, whole: Formed) -> list[Formed]:
        """Return the parts of a region that the engine replicates; refuse the rest."""
        if self.target.parallel_ends:
            return [whole]
        ends = {
            name: Refusal(f"is {verb} by one worker on this engine")
            for name in draft.operators
            if (verb := _verb_of(self.graph[name]))
        }
        self.refused |= ends
        fused = {self.fused[name] for name in ends if name in self.fused}
        if any(not ties <= ends.keys() for ties in fused):
            end, refusal = next(iter(ends.items()))
            together = Refusal(f"must be fused with {end}, which {refusal.text}")
            self.refused |= dict.fromkeys(draft.operators, together) | ends
            return []
        formed = []
        for names in self._components([n for n in draft.operators if n not in ends]):
            torn = self._torn_sets([replace(draft, operators=names)])
            if torn:
                missing = min(torn.values(), key=self.place.__getitem__)
                text = f"must be fused with {missing}, which has no region in common"
                self.refused |= dict.fromkeys(names, Refusal(text))
                continue
            following = {n for name in names for n in self.graph.consumers(name)}
            stops = {
                **{n: why for n, why in draft.ends.items() if n in following},
                **{n: ends[n].text for n in ends.keys() & following},
            }
            keyed = any(self.traits[name].state == "keyed" for name in names)
            part = replace(draft, operators=names, ends=stops)
            formed.append(self._finish(part)._replace(key=draft.key if keyed else ()))
        return formed

    def _components(self, names: Sequence[str]) -> list[list[str]]:
        """Return the connected components of operators, in order."""
        part_of: dict[str, list[str]] = {}
        for name in names:
            before = [part_of[n] for n in self.graph.producers(name) if n in part_of]
            joined = [name]
            for part in {id(part): part for part in before}.values():
                joined = [*part, *joined]
            part_of |= dict.fromkeys(joined, joined)
        found = {id(part): part for part in part_of.values()}
        return [sorted(part, key=self.place.__getitem__) for part in found.values()]


def _other(ties: frozenset[str], name: str) -> str:
    return min(ties - {name})


def _common_key(drafts: Sequence[_Growing]) -> tuple[tuple[str, ...], str | None]:
    """Return the common key of regions, or why they have none."""
    keys = [draft.key for draft in drafts if draft.key]
    if not keys:
        return (), None
    common = tuple(name for name in keys[0] if all(name in key for key in keys))
    if common:
        return common, None
    listed = " and by ".join(_list_names(key) for key in keys)
    return (), f"combines streams that are partitioned by {listed}"


def _why_not_together(
    drafts: Sequence[_Growing], front: Front, target: Target
) -> str | None:
    """Return why a region cannot take in another stream."""
    source = next((draft.source for draft in drafts if draft.source), None)
    if source is not None and target.parallel_ends:
        return f"adds another stream, but every replica reads a part of {source}"
    if front.period > 1:
        return f"adds another stream, but items come {front.period} at a time"
    return None


def _why_not_keyed(
    drafts: Sequence[_Growing], key: tuple[str, ...], open_ones: frozenset[str]
) -> str | None:
    """Return why the input of a region cannot be divided by a key, or None.

    Items that lead to no keyed operator may lack the attribute.
    """
    if not key:
        return None
    names = _list_names(key)
    sink = next((draft.sink for draft in drafts if draft.sink), None)
    if sink is not None:
        return f"needs its items by {names}, but {sink} is written in order"
    if open_ones:
        return f"the items that enter at {min(open_ones)} may have no {names}"
    return None


def _has_branches(graph: Graph, op: Op) -> bool:
    return op.kind.outputs > 1 or len(graph.out_edges(op.name)) > 1


def _verb_of(op: Op) -> str | None:
    """Return the verb for workers at an end of the program; None elsewhere."""
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
