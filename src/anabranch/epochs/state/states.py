"""The states that a program sees while a task runs, backed by the stores.

A state is read when its key first occurs in the epoch, and written back at the end: the
cost depends on the keys touched, not on the keys held. Keys that come due by the clock
of a stream are found through an index by time in each bucket.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple

from anabranch.epochs.state.buckets import PREFIX_BYTES, prefix_of_bucket
from anabranch.epochs.state.store import GONE, NO_STATES, OpenStates, short_key
from anabranch.epochs.transport.pickle import Pickler
from anabranch.errors import CheckpointError, EngineError
from anabranch.graph.graph import Op
from anabranch.operators.kernel import Kernel, State
from anabranch.operators.windows import Aggregate
from anabranch.runtime.clocked import FORGET, TURN, LentKeys
from anabranch.runtime.keys import key_bytes, key_hash, key_rank, rank_bytes
from anabranch.runtime.state import LentStates

BUCKETS = 1 << 10  # of a new job
MOST_BUCKETS = 1 << 14
_MOST_ENTRIES = 1 << 16  # that are remembered
# buckets per replica, so that no replica has many more keys than another
_FOR_REPLICA = 4


def fit_buckets(buckets: int, replicas: int) -> int:
    """Return the number of buckets that a unit needs, at least its present number.

    >>> fit_buckets(16, 2), fit_buckets(16, 12), fit_buckets(512, 2)
    (16, 64, 512)
    """
    while buckets < min(_FOR_REPLICA * replicas, MOST_BUCKETS):
        buckets *= 2
    return buckets


def bucket_of(key: Any, buckets: int) -> int:
    """Return the bucket of a key, the same in every process.

    Bucket b of n is split into the buckets b and b + n of 2n.

    >>> 0 <= bucket_of("A", 16) < 16
    True
    >>> bucket_of("A", 1024) % 16 == bucket_of("A", 16)
    True
    """
    return key_hash(key) % buckets


def prefix_of(number: int) -> bytes:
    """Return the prefix of the state keys of operator `number` of a unit.

    >>> prefix_of(3)
    b'0003/'
    """
    return b"%04d/" % number


def index_of(number: int) -> bytes:
    """Return the prefix of the time index entries of operator `number`."""
    return b"%04d@" % number


class StoredStates(LentStates):
    """The states of one operator that this epoch has touched.

    `whole` loads all of them at the start, for an operator that visits every key at a
    punctuation.
    """

    def __init__(
        self, number: int, op: Op, kernel: Kernel, region_key: tuple[str, ...]
    ) -> None:
        super().__init__()
        self.prefix = prefix_of(number)
        self._op = op
        self._kernel = kernel
        self._places = _places(op.keyed_by, region_key)
        self._whole = kernel.handles_punctuation and bool(op.state_key)
        self._opened: OpenStates = NO_STATES
        self._old: dict[bytes, bytes] = {}
        self._entries: dict[Any, bytes] = {}  # key -> where its state is stored
        self._pickler: Pickler | None = None

    @property
    def prefixes(self) -> tuple[bytes, ...]:
        """The prefixes of all its keys in a store."""
        return (self.prefix,)

    def attach(
        self, opened: OpenStates, pickler: Pickler, *, same: bool = False
    ) -> None:
        """Begin an epoch on a replica's buckets.

        With `same`, they are in the version in which the last epoch left them; else the
        states held by kernels are invalid.
        """
        holder = self.holder if same else None
        self.clear()
        self.holder = holder
        self._old.clear()
        self._open(opened, pickler)
        if self._whole:
            self.load_all()
        elif not self._op.state_key:
            self[()]

    def _open(self, opened: OpenStates, pickler: Pickler) -> None:
        if opened.count != self._opened.count:
            self._entries.clear()
        self._opened, self._pickler = opened, pickler

    def __missing__(self, key: Any) -> State:
        if self._find_lent(key):
            return self[key]
        raw = self._find_entry(key)
        old = self._opened.get(raw)
        if old is None or self._pickler is None:
            state = self[key] = self._kernel.open()
            return state
        self._old[raw] = old
        state = self[key] = self._load(old, key)[1]
        return state

    def load_all(self) -> None:
        """Read the states of every key of the replica."""
        self.settle()
        here = {self._find_entry(key) for key in self}
        for raw, old in self._opened.states(self.prefix):
            if raw not in here:
                key, state = self._load(old)
                self._old[raw] = old
                self[key] = state
        if not self._op.state_key:
            self[()]

    def _load(self, old: bytes, key: Any = None) -> Any:
        """Return the key and state of an entry; a damaged one stops the job."""
        assert self._pickler is not None  # noqa: S101
        try:
            return self._pickler.loads(old)
        except EngineError as error:
            of = "" if key is None else f" for key {key!r}"
            msg = (
                f"{self._op.site}: the state of {self._op.name!r}{of} must be readable; "
                f"{error.__cause__}; if a class that it holds was renamed or removed, "
                f"put it back, or start with another checkpoint"
            )
            raise CheckpointError(msg) from error

    def changes(self) -> dict[bytes, bytes]:
        """Return the changes to write."""
        found: dict[bytes, bytes] = {}
        for key, state in dict.items(self):
            raw = self._find_entry(key)
            new = self._dump(key, state)
            if self._old.get(raw) != new:
                found[raw] = new
        if self.holder is not None:  # which continues to hold them
            for key, state in self.holder.list_changes():
                found[self._find_entry(key)] = self._dump(key, state)
        return found

    def _dump(self, key: Any, state: Any) -> bytes:
        """Return the entry of a key; a state that cannot be stored stops the job."""
        assert self._pickler is not None  # noqa: S101
        try:
            return self._write(self._pickler, key, state)
        except EngineError as error:
            of = f" for key {key!r}" if self._op.keyed_by else ""
            why = error.__cause__
            if why is None:
                msg = f"{self._op.site}: the state of {self._op.name!r}{of}: {error}"
                raise EngineError(msg) from error
            msg = (
                f"{self._op.site}: the state of {self._op.name!r}{of} must be able to "
                f"travel between processes; {type(why).__name__}: {why}; keep values "
                f"from which such an object can be made again, or run with on='local'"
            )
            raise EngineError(msg) from why

    def _write(self, pickler: Pickler, key: Any, state: Any) -> bytes:
        return pickler.dumps_entry(key, state)

    def _find_entry(self, key: Any) -> bytes:
        """Return where the state of a key is stored: its bucket, and its own bytes."""
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= _MOST_ENTRIES:
                self._entries.clear()
            raw = short_key(self.prefix + key_bytes(key))
            entry = self._entries[key] = self._bucket_bytes(key) + raw
        return entry

    def _bucket_bytes(self, key: Any) -> bytes:
        return prefix_of_bucket(self.find_bucket(key, self._opened.count))

    def find_bucket(self, key: Any, count: int) -> int:
        """Return the bucket, out of `count`, by the region's key: this one or a half of
        it.
        """
        if self._places is None:
            return 0
        if self._places == ():
            return bucket_of(key, count)
        part = tuple(key[place] for place in self._places)
        return bucket_of(part[0] if len(part) == 1 else part, count)


def _places(key: Sequence[str], region_key: Sequence[str]) -> tuple[int, ...] | None:
    """Return where the region's key is in a key: (): all of it, None: nowhere."""
    if not region_key:
        return None
    if tuple(key) == tuple(region_key):
        return ()
    return tuple(list(key).index(name) for name in region_key)


class _Kept(NamedTuple):
    """The stored data of a key: its state, its time in the index, and its last time."""

    state: State
    due: Any = None
    end: Any = None
    last: Any = None


_NAMES = {"due": "due", "end": "ends", "last": "last"}  # in the kernel's state
_IN_INDEX = {TURN: "due", FORGET: "end"}


class ClockStates(StoredStates):
    """The state of a keyed operator that follows the clock, key by key.

    The kernel has one state, `()`, with all keys in it: those that the epoch touches,
    or that come due. The clock is the same for all replicas, so it is not stored here:
    each epoch receives it and passes it to the next.
    """

    def __init__(
        self, number: int, op: Op, kernel: Kernel, region_key: tuple[str, ...]
    ) -> None:
        super().__init__(number, op, kernel, region_key)
        self.index = index_of(number)
        self._found: dict[Any, tuple[bytes, _Kept]] = {}  # at the start of the epoch
        # from the index: an entry, its bucket, and its content
        self._waiting: list[tuple[bytes, bytes, bytes]] | None = None
        self._keys = _Keys(self)

    @property
    def prefixes(self) -> tuple[bytes, ...]:
        return self.prefix, self.index

    def attach(
        self, opened: OpenStates, pickler: Pickler, *, same: bool = False
    ) -> None:
        holder = self._keys.holder if same else None
        self.clear()
        self._found.clear()
        self._waiting = None
        self._open(opened, pickler)
        self._keys = _Keys(self)
        fetch = {"more": self._fetch_due, "rest": self.load_all}
        state = {**self._kernel.open(), "keys": self._keys, **fetch}
        self[()] = state
        if holder is not None:
            holder.state = state  # type: ignore[attr-defined]
            self._keys.holder = holder

    def find(self, key: Any) -> State:
        """Return the state of a key that the epoch has not touched yet."""
        if key not in self._found:
            old = self._opened.get(self._find_entry(key))
            if old is not None:
                return self._take(key, old, self._load(old, key)[1])
        raise KeyError(key)

    def find_saved(self, key: Any) -> Any | None:
        """Return when a key was due at the start of the epoch; None if it was not."""
        found = self._found.get(key)
        return None if found is None else found[1].due

    def note(self, key: Any) -> None:
        """Record the initial data of an existing key."""
        if key not in self._found:
            self.find(key)

    def _take(self, key: Any, old: bytes, loaded: tuple[Any, ...]) -> State:
        kept = _Kept(*loaded)
        self._found[key] = old, kept
        state = self[()]
        dict.__setitem__(self._keys, key, kept.state)
        for field, name in _NAMES.items():
            value = getattr(kept, field)
            if value is not None:
                state[name][key] = value
        return kept.state

    def load_all(self) -> None:
        self._keys.settle()
        here = {self._find_entry(key) for key in (*self._keys, *self._found)}
        for raw, old in self._opened.states(self.prefix):
            if raw not in here:
                key, kept = self._load(old)
                self._take(key, old, kept)

    def _fetch_due(self, clock: Any) -> None:
        """Queue the keys due up to the clock, from the index of each bucket."""
        state = self[()]
        if self._waiting is None:
            self._waiting = []
            for number in self._opened.buckets:
                bucket = prefix_of_bucket(number)
                self._go_on(bucket, bucket + self.index)
        while self._waiting:
            entry, bucket, stored = self._waiting[0]
            key, (time, what) = self._load(stored)
            if not time <= clock:
                return
            heapq.heappop(self._waiting)
            if not self._keys.is_lent(key):
                here = dict.__contains__(self._keys, key)
                if not here and key not in self._found:
                    self.find(key)  # with the times it waits for
                    here = True
                if here:
                    due = (time, what, key_rank(key), key)
                    heapq.heappush(state["queue"], due)
            self._go_on(bucket, bucket + entry + b"\0")

    def begin_index_again(self) -> None:
        """Read the index from its beginning at the next request."""
        self._waiting = None

    def _go_on(self, bucket: bytes, begin: bytes) -> None:
        """Wait for the next entry of a bucket's index; entries sort by time."""
        assert self._waiting is not None  # noqa: S101 - the caller has begun
        found = self._opened.first(bucket + self.index, begin)
        if found is not None:
            entry = found[0][PREFIX_BYTES:]
            heapq.heappush(self._waiting, (entry, bucket, found[1]))

    def changes(self) -> dict[bytes, bytes]:
        self._waiting = None
        found: dict[bytes, bytes] = {}
        state = self[()]
        others = {field: state[name] for field, name in _NAMES.items()}
        if self._keys.holder is not None:  # which continues to hold them
            for key, (own, due, before_due) in self._keys.holder.list_changes():
                if own is not None:
                    kept = _Kept(own, due)
                    found[self._find_entry(key)] = self._dump(key, kept)
                elif before_due is not None:
                    found[self._find_entry(key)] = GONE
                before, after = _Kept(None, before_due), _Kept(None, due)
                found |= self._index_changes(key, before, after)
        for key, own in dict.items(self._keys):
            kept = _Kept(own, **{field: has.get(key) for field, has in others.items()})
            old, before = self._found.get(key, (GONE, _Kept(None)))
            new = self._dump(key, kept)
            if new != old:
                found[self._find_entry(key)] = new
            found |= self._index_changes(key, before, kept)
        for key, (_, before) in self._found.items():
            if not (dict.__contains__(self._keys, key) or self._keys.is_lent(key)):
                found[self._find_entry(key)] = GONE
                found |= self._index_changes(key, before, _Kept(None))
        return found

    def _write(self, pickler: Pickler, key: Any, state: Any) -> bytes:
        kept = tuple(state)
        if isinstance(self._op.kind, Aggregate):
            return pickler.dumps_windows(key, kept)
        return pickler.dumps_state((key, kept))

    def _index_changes(
        self, key: Any, before: _Kept, after: _Kept
    ) -> dict[bytes, bytes]:
        """Return the index changes for a key."""
        assert self._pickler is not None  # noqa: S101
        changed: dict[bytes, bytes] = {}
        for what, field in _IN_INDEX.items():
            old, new = getattr(before, field), getattr(after, field)
            if old == new:
                continue
            if old is not None:
                changed[self._entry(old, what, key)] = GONE
            if new is not None:
                entry = self._pickler.dumps_times(key, (new, what))
                changed[self._entry(new, what, key)] = entry
        return changed

    def _entry(self, time: Any, what: int, key: Any) -> bytes:
        raw = short_key(self.index + _rank_time(time, what) + key_bytes(key))
        return self._bucket_bytes(key) + raw


@functools.lru_cache(maxsize=1024, typed=True)
def _rank_time(time: Any, what: int) -> bytes:
    """Return the sort key of a time, which many keys share."""
    return rank_bytes((time, what))


class _Keys(LentKeys):
    """The states of keys, read from the store on demand."""

    stored: ClassVar[bool] = True

    def __init__(self, states: ClockStates) -> None:
        super().__init__()
        self._states = states

    def __missing__(self, key: Any) -> State:
        if self._find_lent(key):
            return self[key]
        return self._states.find(key)

    def settle(self) -> None:
        """Take all states back; the index has already passed the due ones."""
        if self.holder is not None:
            self._states.begin_index_again()
        super().settle()

    def is_lent(self, key: Any) -> bool:
        """Tell whether a holder has a key."""
        return self.holder is not None and self.holder.has(key)  # type: ignore[attr-defined]

    def fetch(self, key: Any) -> State | None:
        if not dict.__contains__(self, key):
            with suppress(KeyError):
                return self._states.find(key)
        return dict.get(self, key)

    def find_saved(self, key: Any) -> Any | None:
        return self._states.find_saved(key)

    def take_back(self, key: Any, state: State | None, saved: Any) -> None:
        if saved is not None:
            self._states.note(key)
        dict.pop(self, key, None)
        if state is not None:
            dict.__setitem__(self, key, state)
