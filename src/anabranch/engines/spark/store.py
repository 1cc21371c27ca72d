"""The state of a unit on this host: one embedded database per bucket of keys.

Python workers are not tied to partitions, so state lives in files that any worker of
the host can map (LMDB). The content after epoch e is version e. An epoch reads
version e-1 and writes version e in one transaction, together with what it replaced;
if the epoch runs again, that is put back first, and the result is the same.

Tries of an epoch may overlap: Spark gives up a task without waiting for its process,
and a killed driver's tasks live on for a while. So each try has a number of its own,
its *turn*. A version is known by epoch and turn; a try reads from a fixed snapshot of
the database; and what a later turn has written, an earlier one cannot replace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import lmdb
import xxhash

from anabranch.errors import EngineError

_MAP_BYTES = 1 << 34  # address space, not memory or disk
_LONGEST_KEY = 500  # LMDB takes 511 bytes
_TRIES = 3  # to read before somebody writes
_STAMP, _BEFORE = b"stamp", b"before"
_ABSENT = b""

Transaction: TypeAlias = Any  # LMDB's, whose stubs do not know that it gives bytes

_environments: dict[str, lmdb.Environment] = {}  # one per path and process: LMDB's rule


class Stamp(NamedTuple):
    """A version of states: the epoch after which they were so, and the turn of it."""

    epoch: int
    turn: int


EMPTY = Stamp(0, 0)


class Bucket:
    """The states of the keys of one bucket, by the bytes of operator and key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._env = _environment(path)
        self._states = self._env.open_db(b"states")
        self._undo = self._env.open_db(b"undo")
        self._meta = self._env.open_db(b"meta")
        self._reading: Transaction | None = None

    @property
    def stamp(self) -> Stamp:
        """The version that is in the states."""
        with self._env.begin() as txn:
            return self._stamp(txn, _STAMP)

    def begin(self, base: Stamp, turn: int) -> bool:
        """Read from version `base` from now on, or tell that this is impossible.

        What an earlier turn has made from `base` is undone, since it was given up; its
        task may still run and write meanwhile.
        """
        self.end()
        for _ in range(_TRIES):
            if self.stamp != base:
                with self._env.begin(write=True) as txn:
                    self._undo_in(txn, base, turn)
            txn = self._env.begin()
            if self._stamp(txn, _STAMP) == base:
                self._reading = txn
                return True
            txn.abort()
        return False

    def end(self) -> None:
        """Let go of the version that was read."""
        if self._reading is not None:
            self._reading.abort()
            self._reading = None

    def get(self, key: bytes) -> bytes | None:
        """Return the state of a key."""
        assert self._reading is not None  # noqa: S101 - between `begin` and `end`
        state: bytes | None = self._reading.get(key, db=self._states)
        return state

    def states(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Return all states whose key begins with `prefix`, in the order of the keys.

        Outside of `begin` and `end` these are the states of the last version.
        """
        if self._reading is not None:
            yield from self._from(self._reading, prefix)
            return
        with self._env.begin() as txn:
            yield from self._from(txn, prefix)

    def _from(self, txn: Transaction, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        with txn.cursor(db=self._states) as cursor:
            if cursor.set_range(prefix):
                for key, state in cursor:
                    if not key.startswith(prefix):
                        return
                    yield key, state

    def write(self, base: Stamp, stamp: Stamp, changes: Mapping[bytes, bytes]) -> None:
        """Make version `stamp` from `base`, in one transaction."""
        with self._env.begin(write=True) as txn:
            self._undo_in(txn, base, stamp.turn)
            found = self._stamp(txn, _STAMP)
            if found != base:
                msg = (
                    f"epoch {stamp.epoch} must be made from {base}; {self.path} is at "
                    f"{found}; a later try or another run has taken over"
                )
                raise EngineError(msg)
            txn.drop(self._undo, delete=False)
            keys = sorted(changes)
            with txn.cursor(db=self._states) as cursor:
                old = dict(cursor.getmulti(keys))
                cursor.putmulti([(key, changes[key]) for key in keys])
            with txn.cursor(db=self._undo) as cursor:
                undo = [(key, old.get(key, _ABSENT)) for key in keys]
                cursor.putmulti(undo, append=True)
            self._put_stamp(txn, _STAMP, stamp)
            self._put_stamp(txn, _BEFORE, base)

    def _undo_in(self, txn: Transaction, base: Stamp, turn: int) -> None:
        """Put the states back if the last version was made from `base` before `turn`."""
        found = self._stamp(txn, _STAMP)
        if found == base or found.turn > turn:  # that turn is the one that counts
            return
        if txn.get(_BEFORE, db=self._meta) is None:
            return
        if self._stamp(txn, _BEFORE) != base:
            return
        for key, old in list(txn.cursor(db=self._undo)):
            if old == _ABSENT:
                txn.delete(key, db=self._states)
            else:
                txn.put(key, old, db=self._states)
        self._replaced(txn, base)

    def load(
        self,
        stamp: Stamp,
        tables: Iterable[Iterable[tuple[bytes, bytes]]],
        *,
        anew: bool,
    ) -> None:
        """Put tables of states over what is there, or `anew`: in its place.

        Each table is in the order of its keys; the first of those that are put in
        anew fills an empty database, which is quick.
        """
        with self._env.begin(write=True) as txn:
            if anew:
                txn.drop(self._states, delete=False)
            for number, table in enumerate(tables):
                with txn.cursor(db=self._states) as cursor:
                    cursor.putmulti(table, append=anew and number == 0)
            self._replaced(txn, stamp)

    def _replaced(self, txn: Transaction, stamp: Stamp) -> None:
        txn.drop(self._undo, delete=False)
        txn.delete(_BEFORE, db=self._meta)
        self._put_stamp(txn, _STAMP, stamp)

    def _stamp(self, txn: Transaction, name: bytes) -> Stamp:
        found = txn.get(name, db=self._meta)
        if found is None:
            return EMPTY
        epoch, turn = found.split()
        return Stamp(int(epoch), int(turn))

    def _put_stamp(self, txn: Transaction, name: bytes, stamp: Stamp) -> None:
        txn.put(name, b"%d %d" % stamp, db=self._meta)


def close_buckets() -> None:
    """Close every database of this process, when another job begins."""
    for environment in _environments.values():
        environment.close()
    _environments.clear()


def short_key(key: bytes) -> bytes:
    """Return a key that LMDB takes: a long one is cut and told apart by its hash.

    >>> short_key(b"0000/s1:A")
    b'0000/s1:A'
    >>> len(short_key(b"x" * 1000))
    500
    """
    if len(key) <= _LONGEST_KEY:
        return key
    return key[: _LONGEST_KEY - 16] + xxhash.xxh3_128_digest(key)


def _environment(path: Path) -> lmdb.Environment:
    name = str(path)
    if name not in _environments:
        path.mkdir(parents=True, exist_ok=True)
        environment = lmdb.open(
            name,
            map_size=_MAP_BYTES,
            max_dbs=3,
            sync=False,  # the durable copy is the checkpoint's
            metasync=False,
            readahead=False,
        )
        environment.reader_check()  # a killed worker still holds on to what it read
        _environments[name] = environment
    return _environments[name]
