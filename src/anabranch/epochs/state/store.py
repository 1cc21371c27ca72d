"""A unit's state on this host: one embedded database per bucket of keys.

Python workers are not tied to partitions, so state lives in files that any worker of
the host can map (LMDB). An epoch reads one version of a bucket and makes the next.

Several attempts may do so for one epoch: Spark starts a second attempt of a slow task,
repeats a stage whose output was lost, and abandons a task without waiting for its
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

import json
import resource
import threading
import weakref
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import lmdb
import xxhash

from anabranch.errors import EngineError

_MAP_BYTES = 1 << 34  # address space, not memory or disk
_LONGEST_KEY = 500  # LMDB takes 511 bytes
_MOST = 16  # attempts of a task in one try that can write
_HELD = b"held"

Transaction: TypeAlias = Any  # LMDB's, whose stubs do not know that it returns bytes

_environments: dict[str, Databases] = {}  # one per path and process: LMDB's rule
_opening = threading.Lock()  # parts of a unit may be threads of one process
_MOST_OPEN = 128  # unused ones that stay open; each has three files
_FILES = 1 << 16  # that a process may need, if it has that many buckets


class Stamp(NamedTuple):
    """The name of a version: its epoch, turn and attempt."""

    epoch: int
    turn: int
    attempt: int = 0


EMPTY = Stamp(0, 0)
GONE = b""  # in changes: the key has no state any more
NOTHING: dict[bytes, bytes] = {}


class Databases(NamedTuple):
    """The file of a bucket, with one database per attempt's changes."""

    file: lmdb.Environment
    states: Any
    meta: Any
    changes: tuple[Any, ...]
    users: weakref.WeakSet[Bucket]


class MadeVersion(NamedTuple):
    """An incomplete version: its changes to its parent are in a slot."""

    stamp: Stamp
    parent: Stamp
    slot: int


class BucketVersions(NamedTuple):
    """The versions in a bucket: the base, and those derived from it.

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


class Bucket:
    """The states of the keys of one bucket, by the bytes of operator and key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _opening:
            opened = _open(path)
            self._env, self._states, self._meta, self._slots, users = opened
            users.add(self)
        self._reading: Transaction | None = None
        self._changed: dict[bytes, bytes] = {}  # in the version that is read

    @property
    def versions(self) -> tuple[Stamp, ...]:
        """The versions that can be read, the base first."""
        with self._env.begin() as txn:
            return self._read_held(txn).stamps

    @property
    def stamp(self) -> Stamp:
        """The version written last."""
        return self.versions[-1]

    def begin(
        self, version: Stamp, turn: int, ahead: dict[bytes, bytes] = NOTHING
    ) -> bool:
        """Read from `version` from now on; return False if it is not here.

        Changes `ahead` of it are applied on top. Whatever others write until `end`,
        this bucket reads the same.
        """
        self.end()
        txn = self._env.begin()
        try:
            held = self._read_held(txn)
            self._refuse_earlier(held, turn)
        except BaseException:
            txn.abort()
            raise
        if version not in held.stamps:
            txn.abort()
            return False
        self._reading = txn
        self._changed = self._changes(txn, held.line_of(version))
        if ahead:
            self._changed = dict(sorted((self._changed | ahead).items()))
        return True

    def end(self) -> None:
        """Release the version that was read."""
        if self._reading is not None:
            self._reading.abort()
            self._reading = None
            self._changed = {}

    def get(self, key: bytes) -> bytes | None:
        """Return the state of a key."""
        assert self._reading is not None  # noqa: S101 - between `begin` and `end`
        state = self._changed.get(key)
        if state is None:
            state = self._reading.get(key, db=self._states)
        return state or None

    def states(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield all states whose key begins with `prefix`, in key order.

        Outside `begin` and `end` these are the states of the last version.
        """
        if self._reading is not None:
            yield from self._from(self._reading, self._changed, prefix)
            return
        with self._env.begin() as txn:
            held = self._read_held(txn)
            changed = self._changes(txn, held.line_of(held.stamps[-1]))
            yield from self._from(txn, changed, prefix)

    def _from(
        self, txn: Transaction, changed: Mapping[bytes, bytes], prefix: bytes
    ) -> Iterator[tuple[bytes, bytes]]:
        changes = (entry for entry in changed.items() if entry[0].startswith(prefix))
        with txn.cursor(db=self._states) as cursor:
            states = _beginning_with(prefix, cursor)
            for entry in merge_changes(states, changes) if changed else states:
                if entry[1] != GONE:
                    yield entry

    def _changes(
        self, txn: Transaction, line: Iterable[MadeVersion]
    ) -> dict[bytes, bytes]:
        """Return the changes of successive versions, sorted by key."""
        changed: dict[bytes, bytes] = {}
        tables = 0
        for one in line:
            with txn.cursor(db=self._slots[one.slot]) as cursor:
                changed.update(cursor)
            tables += 1
        return dict(sorted(changed.items())) if tables > 1 else changed

    def write(
        self,
        base: Stamp,
        stamp: Stamp,
        changes: Mapping[bytes, bytes],
        pending: Container[Stamp] = (),
    ) -> bool:
        """Make version `stamp` from `base`, in one transaction.

        Return False if `base` is not here. Versions in `pending` are not committed yet.
        """
        with self._env.begin(write=True) as txn:
            held = self._read_held(txn)
            self._refuse_earlier(held, stamp.turn)
            if stamp in held.stamps:
                msg = f"an attempt must write once; {self.path} has {stamp} already"
                raise EngineError(msg)
            if base not in held.stamps:
                return False
            line = held.line_of(base)
            held = self._merge(txn, held, [n for n in line if n.stamp not in pending])
            if held.turn < stamp.turn:
                # The tries of all others were abandoned; nobody will ask for them.
                held = self._keep(txn, held, {one.stamp for one in line})
            slot = self._find_slot(held)
            with txn.cursor(db=self._slots[slot]) as cursor:
                cursor.putmulti(sorted(changes.items()), append=True)
            made = (*held.made, MadeVersion(stamp, base, slot))
            self._put_held(txn, held._replace(turn=stamp.turn, made=made))
        return True

    def _find_slot(self, held: BucketVersions) -> int:
        free = set(range(_MOST)) - {one.slot for one in held.made}
        if not free:
            msg = (
                f"at most {_MOST} attempts of a task can write; {self.path} has as "
                f"many; look for what makes Spark repeat it"
            )
            raise EngineError(msg)
        return min(free)

    def _merge(
        self, txn: Transaction, held: BucketVersions, line: Sequence[MadeVersion]
    ) -> BucketVersions:
        """Make the last version of a line, which begins at the base, the new base.

        Only its descendants stay.
        """
        if not line:
            return held
        self._put(txn, self._changes(txn, line).items())
        base = line[-1].stamp
        kept = {base}
        for one in held.made:  # parents come before their children
            if one.parent in kept:
                kept.add(one.stamp)
        return self._keep(txn, held, kept - {base})._replace(base=base)

    def _put(self, txn: Transaction, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Apply changes to the base."""
        changed = list(entries)
        with txn.cursor(db=self._states) as cursor:
            cursor.putmulti([entry for entry in changed if entry[1] != GONE])
        for key, state in changed:
            if state == GONE:
                txn.delete(key, db=self._states)

    def _keep(
        self, txn: Transaction, held: BucketVersions, kept: Container[Stamp]
    ) -> BucketVersions:
        """Keep the base and these versions; drop all others."""
        for one in held.made:
            if one.stamp not in kept:
                txn.drop(self._slots[one.slot], delete=False)
        return held._replace(made=tuple(n for n in held.made if n.stamp in kept))

    def load(
        self,
        version: Stamp,
        turn: int,
        tables: Iterable[Iterable[tuple[bytes, bytes]]],
        since: Stamp | None = None,
    ) -> None:
        """Load sorted tables of states on top of the version `since`, or replacing all.

        Nothing happens if another attempt has loaded `version` meanwhile, or removed
        `since`: `begin` tells.
        """
        with self._env.begin(write=True) as txn:
            held = self._read_held(txn)
            self._refuse_earlier(held, turn)
            if version in held.stamps:
                return
            if since is not None:
                if since not in held.stamps:
                    return
                held = self._merge(txn, held, held.line_of(since))
            self._keep(txn, held, ())
            if since is None:
                txn.drop(self._states, delete=False)
            for number, table in enumerate(tables):
                if since not in (None, EMPTY) or number > 0:
                    self._put(txn, table)
                    continue
                # The first table fills an empty database, which is fast.
                with txn.cursor(db=self._states) as cursor:
                    kept = (entry for entry in table if entry[1] != GONE)
                    cursor.putmulti(kept, append=True)
            self._put_held(txn, BucketVersions(version, turn))

    def _refuse_earlier(self, held: BucketVersions, turn: int) -> None:
        if held.turn > turn:
            msg = (
                f"a task must belong to the last try of its epoch; this one is of turn "
                f"{turn}, and a later try or another run, of turn {held.turn}, has "
                f"taken over {self.path}"
            )
            raise EngineError(msg)

    def _read_held(self, txn: Transaction) -> BucketVersions:
        found = txn.get(_HELD, db=self._meta)
        if found is None:
            return BucketVersions()
        base, turn, made = json.loads(found)
        versions = (
            MadeVersion(Stamp(*stamp), Stamp(*parent), slot)
            for stamp, parent, slot in made
        )
        return BucketVersions(Stamp(*base), turn, tuple(versions))

    def _put_held(self, txn: Transaction, held: BucketVersions) -> None:
        txn.put(_HELD, json.dumps(held).encode(), db=self._meta)


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


def _open(path: Path) -> Databases:
    name = str(path)
    if name not in _environments:
        if len(_environments) % _MOST_OPEN == _MOST_OPEN - 1:
            _close_unused()
        path.mkdir(parents=True, exist_ok=True)
        file = lmdb.open(
            name,
            map_size=_MAP_BYTES,
            max_dbs=2 + _MOST,
            sync=False,  # the durable copy is the checkpoint's
            metasync=False,
            readahead=False,
        )
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
