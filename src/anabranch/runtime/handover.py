"""Moves the states of keys between replicas of a region while items keep flowing.

A splitter that changes its table of buckets sends a handover to the replicas concerned:
behind the last item of the old table, before the first of the new one. A replica that
loses buckets gives away their states when it comes to the handover; one that gets some
waits there until all of them have been given. So a key's items meet its state in order.

Nobody waits for ever. To give, a replica has only to finish what came before, and the
replicas that wait for it have already sent on everything of theirs from before,
including the mark that the handover brings. So nothing behind the region can be short
of them, and there is room again for the replica that is still at work.

Operators that follow a clock hold all their keys in one state. Every replica has seen
the same advances before the handover, so their clocks agree, and only keys move.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from anabranch.runtime.clocked import put_in, take_out

AllOf: TypeAlias = Mapping[str, MutableMapping[Any, Any]]  # operator -> states by key
FindBucket: TypeAlias = Callable[[str, Any], int]  # the bucket of an operator's key


@dataclass(eq=False)
class Exchange:
    """The buckets that move, by new replica, and the states given so far; thread-safe.

    >>> moved = Exchange.between([0, 0, 1, 1], [0, 2, 2, 1])
    >>> sorted(moved.givers), sorted(moved.takers), moved.bucket_goes_to
    ([0, 1], [2], {1: 2, 2: 2})
    """

    bucket_goes_to: Mapping[int, int]
    givers: frozenset[int]
    _given: dict[int, list[tuple[str, Any, Any]]] = field(default_factory=dict)
    _missing: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _complete: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def between(cls, before: Sequence[int], after: Sequence[int]) -> Exchange:
        """Return the exchange for a new table of buckets."""
        pairs = list(enumerate(zip(before, after, strict=True)))
        moved = {bucket: new for bucket, (old, new) in pairs if old != new}
        givers = frozenset(old for _, (old, new) in pairs if old != new)
        return cls(moved, givers, _missing=set(givers))

    @property
    def takers(self) -> frozenset[int]:
        """The replicas that get buckets."""
        return frozenset(self.bucket_goes_to.values())

    def give(
        self,
        replica: int,
        states: AllOf,
        find_bucket: FindBucket,
        clocked: Collection[str] = (),
    ) -> None:
        """Take the states that move out of a replica, once.

        The operators in `clocked` have one state with all their keys.
        """
        if replica not in self._missing:
            return
        taken: list[tuple[int, tuple[str, Any, Any]]] = []
        for name, own in states.items():
            if name in clocked:
                parts = take_out(own[()], partial(self._find_new, find_bucket, name))
                taken += [(to, (name, (), part)) for to, part in parts.items()]
                continue
            found = [(k, self._find_new(find_bucket, name, k)) for k in own]
            taken += [(to, (name, k, own.pop(k))) for k, to in found if to is not None]
        with self._lock:
            for to, state in taken:
                self._given.setdefault(to, []).append(state)
            self._missing.discard(replica)
            if not self._missing:
                self._complete.set()

    def _find_new(self, find_bucket: FindBucket, operator: str, key: Any) -> int | None:
        return self.bucket_goes_to.get(find_bucket(operator, key))

    def is_complete(self, wait_s: float) -> bool:
        """Wait up to so long; tell whether every replica has given its states."""
        return self._complete.wait(wait_s)

    def take(self, replica: int, states: AllOf, clocked: Collection[str] = ()) -> None:
        """Put the states for a replica in its place; only when complete."""
        for name, key, state in self._given.pop(replica, ()):
            if name in clocked:
                put_in(states[name][key], state)
            else:
                states[name][key] = state


@dataclass(frozen=True, eq=False)
class Handover:
    """One replica's part in an exchange of keys."""

    exchange: Exchange
    replica: int
    find_bucket: FindBucket
    clocked: frozenset[str] = frozenset()

    @property
    def must_wait(self) -> bool:
        """Whether the replica gets states."""
        return self.replica in self.exchange.takers

    def give(self, states: AllOf) -> None:
        """Give away the replica's states that move."""
        self.exchange.give(self.replica, states, self.find_bucket, self.clocked)

    def take(self, states: AllOf) -> None:
        """Put the states in that the others have given."""
        self.exchange.take(self.replica, states, self.clocked)
