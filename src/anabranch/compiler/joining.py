"""Whether a growing region may take in the next operator.

Section 3.1 of the paper: the keys must be compatible, the region key being what they
have in common, and it must reach every keyed operator as it was at the entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd

from anabranch.analysis.traits import Traits
from anabranch.compiler.marks import passes_marks
from anabranch.compiler.options import Target
from anabranch.compiler.safety import is_whole_block
from anabranch.graph.blocks import Block
from anabranch.graph.graph import Op
from anabranch.graph.kinds import Map
from anabranch.graph.sinks import SinkKind
from anabranch.graph.sources import Source


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


def joined_key(front: Front, traits: Traits) -> tuple[str, ...]:
    """Return the region key once an operator has joined; empty if there is none.

    >>> joined_key(Front(key=("k",)), Traits("keyed", key=("l", "k")))
    ('k',)
    >>> joined_key(Front(kept=frozenset({"l"})), Traits("keyed", key=("k", "l")))
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
    if isinstance(op.kind, Source):
        return None
    if is_whole_block(op, traits) and (why := _why_not_in_groups(front, target)):
        return f"takes several items at a time, and {why}"
    if traits.state == "keyed" and (why := _why_not_by_key(front, traits)):
        return why
    if isinstance(op.kind, SinkKind) and traits.needs_order:
        return _why_not_in_order(front, target)
    return None


def joined(front: Front, op: Op, traits: Traits) -> Front:
    """Return the front of a region after an operator has joined."""
    if isinstance(op.kind, Source):
        key = traits.key if traits.state == "keyed" else ()
        return Front(key=key, by_range=not key, paced=not key)
    kept = front.kept
    if traits.forwards is not None:
        kept = traits.forwards if kept is None else kept & traits.forwards
    return Front(
        joined_key(front, traits),
        kept,
        front.by_range,
        front.marked and passes_marks(traits),
        front.paced and isinstance(op.kind, Map | Block),
        *_paced(front, op),
    )


def _paced(front: Front, op: Op) -> tuple[int, Fraction]:
    """Return the period and the gain of a region once an operator has joined.

    >>> pairs = Op("pairs", Block(sum, pop=2, push=1, peek=2))
    >>> _paced(Front(period=3, gain=Fraction(1)), pairs)
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
        return f"needs its items by {_listed(traits.key)}, but they come in groups"
    if front.by_range:
        return f"needs its items by {_listed(traits.key)}, but they are read by range"
    return None if joined_key(front, traits) else _why_no_key(front, traits)


def _why_no_key(front: Front, traits: Traits) -> str:
    own = _listed(traits.key)
    if front.key and not set(front.key) & set(traits.key):
        return f"keeps state by {own}, which has nothing in common with {_listed(front.key)}"
    return f"keeps state by {own}, which is not forwarded unchanged to it"


def _why_not_in_order(front: Front, target: Target) -> str | None:
    if front.contiguous(target):
        return None
    if front.key:
        return f"is written in order, but the items are divided by {_listed(front.key)}"
    return "is written in order, but the items come one by one"


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names)
