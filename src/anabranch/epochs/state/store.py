"""A unit's state on this host: an embedded database for some buckets of keys.

Python workers are not tied to partitions, so state lives in files that any worker of
the host can map (LMDB). An epoch reads one version of each of its buckets and makes the
next.

Several attempts may do so for one epoch: an engine starts a second attempt of a slow
task, repeats a stage whose output was lost, and abandons a task without waiting for its
process; the tasks of a killed driver live on for a while. Only the driver knows which
attempt counts, and it says so later, as the version that the next epoch begins with. So
an attempt replaces nothing. A bucket holds one version completely, its *base*, and the
changes of each attempt, side by side. When an epoch begins with the version of one
attempt, the driver has committed that one: the first write of the epoch then merges its
changes into the base and drops those of the others.

An epoch may also begin before the previous one is committed. Then its tasks know which
tries are *pending*, and its changes are kept apart from the changes it follows, which
stay unchanged: should the driver take them back, the base is still there.

A deleted state is a change to nothing, which is later removed from the base too.

A version is named by its epoch, its *turn* (the number of the try; later tries and
later runs have larger ones) and the id of the attempt. A task of an earlier turn than
the last writer's was abandoned, and is refused.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import resource
import threading
import weakref
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import lmdb
import xxhash

from anabranch.epochs.state.buckets import (
    EMPTY,
    PREFIX_BYTES,
    Stamp,
    count_in_store,
    in_ranges,
    prefix_of_bucket,
    to_ranges,
)
from anabranch.errors import EngineError

_MAP_BYTES = 1 << 34  # address space, not memory or disk
_LONGEST_KEY = 500  # LMDB takes 511 bytes
_MOST = 64  # attempts of tasks that can write, of all replicas that use a store
_BATCH = 1 << 14  # entries that are sorted at a time
_HELD = b"held"
_READERS = 1024  # transactions that read a store at a time, in all processes
_READERS_BYTES = 64 * (_READERS + 2)  # of their table

Transaction: TypeAlias = Any  # LMDB's, whose stubs do not know that it returns bytes

_environments: dict[str, Databases] = {}  # one per path and process: LMDB's rule
_opening = threading.Lock()  # parts of a unit may be threads of one process
_MOST_OPEN = 128  # unused ones that stay open; each has three files
_FILES = 1 << 16  # that a process may need, if it has that many buckets


Entry: TypeAlias = tuple[bytes, bytes]  # key, state
GONE = b""  # in changes: the key has no state any more
NOTHING: dict[bytes, bytes] = {}


class Databases(NamedTuple):
    """The file of a store, with one database per attempt's changes."""

    file: lmdb.Environment
    states: Any
    meta: Any
    changes: tuple[Any, ...]
    users: weakref.WeakSet[BucketStore]


class MadeVersion(NamedTuple):
    """An incomplete version: its changes to its parent are in a slot."""

    stamp: Stamp
    parent: Stamp
    slot: int


class BucketVersions(NamedTuple):
    """The versions of a bucket: the base, and those derived from it.

    `turn` is the largest turn that has written.
    """

    base: Stamp = EMPTY
    turn: int = 0
    made: tuple[MadeVersion, ...] = ()

    @property
    def stamps(self) -> tuple[Stamp, ...]:
        """The names of all versions, the base first."""
        return self.base, *(one.stamp for one in self.made)

    def line_of(self, version: Stamp) -> list[MadeVersion]:
        """Return the versions from the base to a version, in this order.

        >>> first, second = Stamp(4, 9), Stamp(5, 10)
        >>> made = MadeVersion(first, EMPTY, 0), MadeVersion(second, first, 1)
        >>> [one.slot for one in BucketVersions(made=made).line_of(second)]
        [0, 1]
        """
        known = {one.stamp: one for one in self.made}
        line: list[MadeVersion] = []
        while version != self.base:
            line.insert(0, known[version])
            version = line[0].parent
        return line

    def keep(self, kept: Container[Stamp]) -> BucketVersions:
        """Return the base and these versions."""
        return self._replace(made=tuple(n for n in self.made if n.stamp in kept))

    def move_base(self, line: Sequence[MadeVersion]) -> BucketVersions:
        """Return the last version of a line, which begins at the base, as the new base.

        Only its descendants stay.
        """
        if not line:
            return self
        base = line[-1].stamp
        kept = {base}
        for one in self.made:  # parents come before their children
            if one.parent in kept:
                kept.add(one.stamp)
        return self.keep(kept - {base})._replace(base=base)


# The buckets of a store by their versions. Most have the same.
Held: TypeAlias = dict[BucketVersions, set[int]]


class Selected(NamedTuple):
    """Buckets with the same versions, of which the same one is wanted."""

    versions: BucketVersions
    wanted: Stamp
    buckets: set[int]


def select(held: Held, wanted: Mapping[int, Stamp]) -> tuple[list[Selected], Held]:
    """Return the wanted buckets, and all others.

    >>> one, two = BucketVersions(Stamp(1, 1)), BucketVersions(Stamp(2, 2))
    >>> chosen, others = select({one: {3, 4}, two: {5}}, {4: Stamp(1, 1), 6: EMPTY})
    >>> [(of.versions.base.epoch, of.buckets) for of in chosen], others == {one: {3}, two: {5}}
    ([(1, {4}), (0, {6})], True)
    """
    chosen: dict[tuple[BucketVersions, Stamp], set[int]] = {}
    others: Held = {}
    left = set(wanted)
    stamps = set(wanted.values())
    same = stamps.pop() if len(stamps) == 1 else None  # for all, as a rule
    for versions, buckets in held.items():
        here = buckets & left
        if len(here) < len(buckets):
            others[versions] = buckets - here
        if here and same is not None:
            chosen[versions, same] = here
        else:
            for bucket in here:
                chosen.setdefault((versions, wanted[bucket]), set()).add(bucket)
        left -= here
    for bucket in left:
        chosen.setdefault((BucketVersions(), wanted[bucket]), set()).add(bucket)
    return [Selected(*key, buckets) for key, buckets in chosen.items()], others


def find_missing(chosen: Iterable[Selected]) -> list[int]:
    """Return the buckets whose wanted version is not here."""
    return sorted(
        bucket
        for versions, wanted, buckets in chosen
        if wanted not in versions.stamps
        for bucket in buckets
    )


class BucketStore:
    """The states of some buckets of keys, by the bytes of bucket, operator and key.

    A store has one writer at a time, but several replicas may use it, each for its own
    buckets. The versions of a bucket do not depend on those of the others.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _opening:
            opened = _open(path)
            self._env, self._states, self._meta, self._slots, users = opened
            users.add(self)
        self._reading: Transaction | None = None
        self._cursor: Any = None  # of the transaction
        self._buckets: list[int] = []  # that are read
        self._changed: dict[bytes, bytes] = {}  # in the versions that are read
        self._sorted: list[bytes] | None = None  # the keys of the changes

    def find_versions(self, buckets: Iterable[int]) -> dict[int, tuple[Stamp, ...]]:
        """Return the versions of buckets that can be read, the base first."""
        with self._env.begin() as txn:
            chosen, _ = select(self._read_held(txn), dict.fromkeys(buckets, EMPTY))
        return {b: one.versions.stamps for one in chosen for b in one.buckets}

    def begin(
        self,
        wanted: Mapping[int, Stamp],
        turn: int,
        ahead: Mapping[bytes, bytes] = NOTHING,
    ) -> list[int]:
        """Read these versions of buckets from now on; return those that are not here.

        If any is missing, nothing can be read. Changes `ahead` of the versions are
        applied on top. Whatever others write until `end`, this store reads the same.
        """
        self.end()
        txn = self._env.begin()
        try:
            chosen, others = select(self._read_held(txn), wanted)
            self._refuse_earlier(chosen, turn)
            missing = find_missing(chosen)
            if not missing:
                changed = self._read_changes(txn, chosen, others)
        except BaseException:
            txn.abort()
            raise
        if missing:
            txn.abort()
            return missing
        self._reading = txn
        self._buckets = sorted(wanted)
        self._changed = {**changed, **ahead} if ahead else changed
        self._sorted = None
        return []

    def end(self) -> None:
        """Release the versions that were read."""
        if self._reading is not None:
            self._reading.abort()
            self._reading = self._cursor = None
            self._changed = {}

    def get(self, key: bytes) -> bytes | None:
        """Return a state."""
        assert self._reading is not None  # noqa: S101 - between `begin` and `end`
        state = self._changed.get(key)
        if state is None:
            state = self._reading.get(key, db=self._states)
        return state or None

    def states(
        self, prefix: bytes = b"", buckets: Iterable[int] | None = None
    ) -> Iterator[Entry]:
        """Yield the states whose key begins with `prefix`, by bucket and key."""
        assert self._reading is not None  # noqa: S101 - between `begin` and `end`
        if self._sorted is None:
            self._sorted = sorted(self._changed)
        for bucket in self._buckets if buckets is None else buckets:
            yield from self._from(prefix_of_bucket(bucket) + prefix)

    def first(self, prefix: bytes, begin: bytes) -> Entry | None:
        """Return the first state from key `begin` on whose key begins with `prefix`."""
        assert self._reading is not None  # noqa: S101 - between `begin` and `end`
        if self._sorted is None:
            self._sorted = sorted(self._changed)
        if self._cursor is None:
            self._cursor = self._reading.cursor(db=self._states)
        while True:
            place = bisect_left(self._sorted, begin)
            found = self._sorted[place] if place < len(self._sorted) else prefix[:-1]
            changed = found if found.startswith(prefix) else None
            stored = None
            if self._cursor.set_range(begin):
                key = self._cursor.key()
                stored = key if key.startswith(prefix) else None
            if changed is None:
                return None if stored is None else (stored, self._cursor.value())
            if stored is not None and stored < changed:
                return stored, self._cursor.value()
            if self._changed[changed] != GONE:
                return changed, self._changed[changed]
            begin = changed + b"\0"  # the next possible key

    def _from(self, prefix: bytes) -> Iterator[Entry]:
        assert self._reading is not None  # noqa: S101
        assert self._sorted is not None  # noqa: S101
        first = bisect_left(self._sorted, prefix)
        changed = itertools.takewhile(
            lambda key: key.startswith(prefix),
            itertools.islice(self._sorted, first, None),
        )
        with self._reading.cursor(db=self._states) as cursor:
            states = _beginning_with(prefix, cursor)
            if first < len(self._sorted) and self._sorted[first].startswith(prefix):
                states = merge_changes(states, ((k, self._changed[k]) for k in changed))
            for entry in states:
                if entry[1] != GONE:
                    yield entry

    def _read_changes(
        self, txn: Transaction, chosen: Sequence[Selected], others: Held
    ) -> dict[bytes, bytes]:
        """Return the changes since the base, up to the wanted versions."""
        changed: dict[bytes, bytes] = {}
        alone = len(chosen) == 1 and not others
        for versions, wanted, buckets in chosen:
            own = None if alone else buckets
            changed.update(self._changes(txn, versions.line_of(wanted), own))
        return changed

    def _changes(
        self, txn: Transaction, line: Iterable[MadeVersion], buckets: set[int] | None
    ) -> dict[bytes, bytes]:
        """Return the changes of successive versions; of some buckets, if given.

        A slot may have changes of others too.
        """
        changed: dict[bytes, bytes] = {}
        own = None if buckets is None else {prefix_of_bucket(b) for b in buckets}
        for one in line:
            with txn.cursor(db=self._slots[one.slot]) as cursor:
                if own is None:
                    changed.update(cursor)
                    continue
                changed.update(
                    entry for entry in cursor if entry[0][:PREFIX_BYTES] in own
                )
        return changed

    def write(
        self,
        bases: Mapping[int, Stamp],
        stamp: Stamp,
        changes: Sequence[Entry],
        pending: Container[Stamp] = (),
    ) -> list[int]:
        """Make version `stamp` of buckets from their `bases`, in one transaction.

        Return the buckets whose base is not here; then nothing is written. Changes are
        sorted by key. Versions in `pending` are not committed yet.
        """
        with self._env.begin(write=True) as txn:
            held = self._read_held(txn)
            chosen, others = select(held, bases)
            self._refuse_earlier(chosen, stamp.turn)
            if any(stamp in one.versions.stamps for one in chosen):
                msg = f"an attempt must write once; {self.path} has {stamp} already"
                raise EngineError(msg)
            missing = find_missing(chosen)
            if missing:
                return missing
            kept = []
            for versions, base, buckets in chosen:
                line = versions.line_of(base)
                committed = [one for one in line if one.stamp not in pending]
                own = None if len(chosen) == 1 and not others else buckets
                self._put(txn, self._changes(txn, committed, own).items())
                after = versions.move_base(committed)
                if after.turn < stamp.turn:
                    # The tries of all others were abandoned; nobody will ask for them.
                    after = after.keep({one.stamp for one in line})
                kept.append((after, base, buckets))
            used = _find_slots((*others, *(after for after, _, _ in kept)))
            self._free(txn, held, used)
            slot = self._find_slot(used)
            with txn.cursor(db=self._slots[slot]) as cursor:
                cursor.putmulti(changes, append=True)
            for after, base, buckets in kept:
                made = (*after.made, MadeVersion(stamp, base, slot))
                new = after._replace(turn=stamp.turn, made=made)
                others.setdefault(new, set()).update(buckets)
            self._put_held(txn, others)
        return []

    def _find_slot(self, used: Container[int]) -> int:
        slot = next((slot for slot in range(_MOST) if slot not in used), None)
        if slot is None:
            msg = (
                f"at most {_MOST} attempts of tasks can write; {self.path} has as "
                f"many; look for what makes the engine repeat them"
            )
            raise EngineError(msg)
        return slot

    def _free(self, txn: Transaction, held: Held, used: Container[int]) -> None:
        """Empty the slots that no bucket needs any more."""
        for slot in _find_slots(held):
            if slot not in used:
                txn.drop(self._slots[slot], delete=False)

    def _put(self, txn: Transaction, entries: Iterable[Entry]) -> None:
        """Apply changes to the base."""
        changed = sorted(entries)
        with txn.cursor(db=self._states) as cursor:
            cursor.putmulti([entry for entry in changed if entry[1] != GONE])
        for key, state in changed:
            if state == GONE:
                txn.delete(key, db=self._states)

    def load(
        self,
        version: Stamp,
        buckets: Iterable[int],
        turn: int,
        tables: Iterable[Iterable[Entry]],
        since: Stamp | None = None,
    ) -> None:
        """Load sorted tables of states on top of the version `since`, or replacing all.

        Nothing happens if another attempt has loaded `version` of a bucket meanwhile, or
        removed `since`: `begin` tells.
        """
        with self._env.begin(write=True) as txn:
            held = self._read_held(txn)
            chosen, others = select(held, dict.fromkeys(buckets, since or version))
            self._refuse_earlier(chosen, turn)
            if any(version in one.versions.stamps for one in chosen):
                return
            is_empty = False
            if since is not None:
                if find_missing(chosen):
                    return
                for versions, base, own in chosen:
                    line = versions.line_of(base)
                    self._put(txn, self._changes(txn, line, own).items())
            else:
                own = {bucket for one in chosen for bucket in one.buckets}
                is_empty = self._clear(txn, own, others)
            self._free(txn, held, _find_slots(others))
            for number, table in enumerate(tables):
                if is_empty and number == 0:  # which is fast
                    with txn.cursor(db=self._states) as cursor:
                        kept = (entry for entry in table if entry[1] != GONE)
                        cursor.putmulti(kept, append=True)
                else:
                    for entries in _in_batches(table):
                        self._put(txn, entries)
            loaded = {bucket for one in chosen for bucket in one.buckets}
            others.setdefault(BucketVersions(version, turn), set()).update(loaded)
            self._put_held(txn, others)

    def _clear(self, txn: Transaction, buckets: set[int], others: Held) -> bool:
        """Remove the states of buckets; return whether the store has no others."""
        if not others:
            txn.drop(self._states, delete=False)
            return True
        for bucket in buckets:
            prefix = prefix_of_bucket(bucket)
            with txn.cursor(db=self._states) as cursor:
                found = cursor.set_range(prefix)
                while found and cursor.key().startswith(prefix):
                    found = cursor.delete()
        return False

    def _refuse_earlier(self, chosen: Iterable[Selected], turn: int) -> None:
        last = max((one.versions.turn for one in chosen), default=0)
        if last > turn:
            msg = (
                f"a task must belong to the last try of its epoch; this one is of turn "
                f"{turn}, and a later try or another run, of turn {last}, has "
                f"taken over {self.path}"
            )
            raise EngineError(msg)

    def _read_held(self, txn: Transaction) -> Held:
        found = txn.get(_HELD, db=self._meta)
        if found is None:
            return {}
        held: Held = {}
        for base, turn, made, ranges in json.loads(found):
            versions = (
                MadeVersion(Stamp(*stamp), Stamp(*parent), slot)
                for stamp, parent, slot in made
            )
            key = BucketVersions(Stamp(*base), turn, tuple(versions))
            held[key] = set(in_ranges(ranges))
        return held

    def _put_held(self, txn: Transaction, held: Held) -> None:
        data = [(*versions, to_ranges(buckets)) for versions, buckets in held.items()]
        txn.put(_HELD, json.dumps(data).encode(), db=self._meta)


class OpenStates:
    """The states of a replica's buckets, in the versions that an epoch begins with."""

    def __init__(
        self, stores: Mapping[int, BucketStore], buckets: Sequence[int], count: int
    ) -> None:
        self.buckets = buckets
        self.count = count  # of all, also of other replicas
        self._stores = tuple(stores.values())
        each = count_in_store(count)
        self._of_prefix = {prefix_of_bucket(b): stores[b // each] for b in buckets}

    def get(self, key: bytes) -> bytes | None:
        """Return the state stored under a key."""
        return self._of_prefix[key[:PREFIX_BYTES]].get(key)

    def states(self, prefix: bytes = b"") -> Iterator[Entry]:
        """Yield all states whose key in its bucket begins with `prefix`."""
        for store in self._stores:
            yield from store.states(prefix)

    def first(self, prefix: bytes, begin: bytes) -> Entry | None:
        """Return the first state from key `begin` on whose key begins with `prefix`.

        Both begin with the same bucket.
        """
        return self._of_prefix[prefix[:PREFIX_BYTES]].first(prefix, begin)


NO_STATES = OpenStates({}, (), 1)


def _find_slots(versions: Iterable[BucketVersions]) -> set[int]:
    return {made.slot for one in versions for made in one.made}


def _in_batches(table: Iterable[Entry]) -> Iterator[list[Entry]]:
    entries = iter(table)
    while batch := list(itertools.islice(entries, _BATCH)):
        yield batch


def _beginning_with(prefix: bytes, cursor: Any) -> Iterator[tuple[bytes, bytes]]:
    if cursor.set_range(prefix):
        for key, state in cursor:
            if not key.startswith(prefix):
                return
            yield key, state


def merge_changes(
    states: Iterable[tuple[bytes, bytes]], changes: Iterable[tuple[bytes, bytes]]
) -> Iterator[tuple[bytes, bytes]]:
    """Merge changes into states, both sorted by key.

    >>> list(merge_changes([(b"a", b"1"), (b"c", b"1")], [(b"b", b"2"), (b"c", b"2")]))
    [(b'a', b'1'), (b'b', b'2'), (b'c', b'2')]
    """
    waiting = iter(changes)
    change = next(waiting, None)
    for entry in states:
        while change is not None and change[0] < entry[0]:
            yield change
            change = next(waiting, None)
        if change is not None and change[0] == entry[0]:
            yield change
            change = next(waiting, None)
        else:
            yield entry
    if change is not None:
        yield change
        yield from waiting


def close_buckets() -> None:
    """Close every database of this process, when another job begins."""
    for databases in _environments.values():
        databases.file.close()
    _environments.clear()


def _close_unused() -> None:
    """Close unused databases; if all are in use, allow more files."""
    for name, databases in list(_environments.items()):
        if not databases.users:
            databases.file.close()
            del _environments[name]
    if len(_environments) >= _MOST_OPEN:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def short_key(key: bytes) -> bytes:
    """Return a key that LMDB accepts: a long one is truncated and extended by its hash.

    >>> short_key(b"0000/s1:A")
    b'0000/s1:A'
    >>> len(short_key(b"x" * 1000))
    500
    """
    if len(key) <= _LONGEST_KEY:
        return key
    return key[: _LONGEST_KEY - 16] + xxhash.xxh3_128_digest(key)


def _allocate(path: Path) -> None:
    """Give LMDB's table of readers its blocks on the disk.

    LMDB maps the table and writes into it. On a full disk a block that it does not have
    yet would end the process (SIGBUS); here that is an error.
    """
    with path.open("ab") as file:
        if file.tell() < _READERS_BYTES:
            os.posix_fallocate(file.fileno(), 0, _READERS_BYTES)


def _open_file(path: Path) -> lmdb.Environment:
    """Open the file of a bucket; make it anew if it was never complete.

    It is incomplete if the disk was full when it was made. No state is lost with it:
    the bucket is restored from the checkpoint.
    """
    _allocate(path / "lock.mdb")
    try:
        return _open_lmdb(path)
    except lmdb.InvalidError:
        pass
    with (path / "making").open("w") as making:
        fcntl.flock(making, fcntl.LOCK_EX)  # another worker may be doing the same
        try:
            return _open_lmdb(path)
        except lmdb.InvalidError:
            (path / "data.mdb").unlink()
            return _open_lmdb(path)


def _open_lmdb(path: Path) -> lmdb.Environment:
    return lmdb.open(
        str(path),
        map_size=_MAP_BYTES,
        max_dbs=2 + _MOST,
        max_readers=_READERS,
        sync=False,  # the durable copy is the checkpoint's
        metasync=False,
        readahead=False,
    )


def _open(path: Path) -> Databases:
    name = str(path)
    if name not in _environments:
        if len(_environments) % _MOST_OPEN == _MOST_OPEN - 1:
            _close_unused()
        path.mkdir(parents=True, exist_ok=True)
        file = _open_file(path)
        file.reader_check()  # a killed worker still holds what it read
        with file.begin(write=True) as txn:
            _environments[name] = Databases(
                file,
                file.open_db(b"states", txn=txn),
                file.open_db(b"meta", txn=txn),
                tuple(file.open_db(b"changes %d" % n, txn=txn) for n in range(_MOST)),
                weakref.WeakSet(),
            )
    return _environments[name]
