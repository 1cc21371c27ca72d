"""The states that a program sees while a task runs, backed by the stores.

A state is read when its key first occurs in the epoch, and written back at the end:
the cost follows the keys that are touched, not the keys that are held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.epochs.pickle import Pickler
from anabranch.epochs.state.store import Bucket, short_key
from anabranch.errors import CheckpointError, EngineError
from anabranch.graph.graph import Op
from anabranch.operators.kernel import Kernel, State
from anabranch.runtime.keys import key_bytes, key_hash

MOST_BUCKETS = 1 << 14
_FOR_REPLICA = 4  # buckets, so that no replica has many more keys than another


def fit_buckets(buckets: int, replicas: int) -> int:
    """Return how many buckets a unit needs for so many replicas: not fewer than it has.

    >>> fit_buckets(16, 2), fit_buckets(16, 12), fit_buckets(512, 2)
    (16, 64, 512)
    """
    while buckets < min(_FOR_REPLICA * replicas, MOST_BUCKETS):
        buckets *= 2
    return buckets


def bucket_of(key: Any, buckets: int) -> int:
    """Return the bucket of a key, the same in every process.

    Bucket b of n is divided into the buckets b and b + n of 2n.

    >>> 0 <= bucket_of("A", 16) < 16
    True
    >>> bucket_of("A", 1024) % 16 == bucket_of("A", 16)
    True
    """
    return key_hash(key) % buckets


def prefix_of(number: int) -> bytes:
    """Return how the keys of the states of operator `number` of a unit begin.

    >>> prefix_of(3)
    b'0003/'
    """
    return b"%04d/" % number


class StoredStates(dict[Any, State]):
    """The states of one operator that this epoch has touched.

    `whole` loads all of them at the start, for an operator that has something to say
    to every key at a punctuation.
    """

    def __init__(
        self, number: int, op: Op, kernel: Kernel, region_key: tuple[str, ...]
    ) -> None:
        super().__init__()
        self.prefix = prefix_of(number)
        self._op = op
        self._kernel = kernel
        self._places = _places(op.state_key, region_key)
        self._whole = kernel.handles_punctuation and bool(op.state_key)
        self._buckets: Mapping[int, Bucket] = {}
        self._count = 1  # of all buckets, also of other replicas
        self._old: dict[bytes, bytes] = {}
        self._pickler: Pickler | None = None

    def attach(
        self, buckets: Mapping[int, Bucket], count: int, pickler: Pickler
    ) -> None:
        """Begin an epoch on the buckets of a replica, some of so many."""
        self.clear()
        self._old.clear()
        self._buckets = buckets
        self._count = count
        self._pickler = pickler
        if self._whole:
            self.load_all()
        elif not self._op.state_key:
            self[()]

    def __missing__(self, key: Any) -> State:
        raw = self._raw(key)
        old = self._bucket(key).get(raw)
        if old is None or self._pickler is None:
            state = self[key] = self._kernel.open()
            return state
        self._old[raw] = old
        state = self[key] = self._load(old, key)[1]
        return state

    def load_all(self) -> None:
        """Read the states of every key of the replica."""
        for bucket in self._buckets.values():
            for raw, old in bucket.states(self.prefix):
                key, state = self._load(old)
                if key not in self:
                    self._old[raw] = old
                    self[key] = state
        if not self._op.state_key:
            self[()]

    def _load(self, old: bytes, key: Any = None) -> Any:
        """Return the key and the state of an entry; one that is damaged stops the job."""
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

    def changes(self) -> dict[int, dict[bytes, bytes]]:
        """Return what has to be written, by bucket."""
        assert self._pickler is not None  # noqa: S101
        found: dict[int, dict[bytes, bytes]] = {number: {} for number in self._buckets}
        for key, state in self.items():
            raw = self._raw(key)
            new = self._pickler.dumps_state((key, state))
            if self._old.get(raw) != new:
                found[self.find_bucket(key, self._count)][raw] = new
        return found

    def _raw(self, key: Any) -> bytes:
        return short_key(self.prefix + key_bytes(key))

    def _bucket(self, key: Any) -> Bucket:
        return self._buckets[self.find_bucket(key, self._count)]

    def find_bucket(self, key: Any, count: int) -> int:
        """Return the bucket, of so many, by the region's key: this one or a part of it."""
        if self._places is None:
            return 0
        if self._places == ():
            return bucket_of(key, count)
        part = tuple(key[place] for place in self._places)
        return bucket_of(part[0] if len(part) == 1 else part, count)


def _places(
    state_key: Sequence[str], region_key: Sequence[str]
) -> tuple[int, ...] | None:
    """Return where in a key the region's key stands: (): all of it, None: nowhere."""
    if not region_key:
        return None
    if tuple(state_key) == tuple(region_key):
        return ()
    return tuple(list(state_key).index(name) for name in region_key)
