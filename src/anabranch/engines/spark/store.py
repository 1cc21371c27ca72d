"""The state of a unit on this host: one embedded database per bucket of keys.

Python workers are not tied to partitions, so state lives in files that any worker of
the host can map (LMDB). The content after epoch e is version e. An epoch reads
version e-1 and writes version e in one transaction, together with what it replaced;
if Spark runs the epoch again, that is put back first, and the result is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import lmdb
import xxhash

from anabranch.errors import EngineError

_MAP_BYTES = 1 << 34  # address space, not memory or disk
_LONGEST_KEY = 500  # LMDB takes 511 bytes
_VERSION = b"version"
_ABSENT = b""

_environments: dict[str, lmdb.Environment] = {}  # one per path and process: LMDB's rule


class Bucket:
    """The states of the keys of one bucket, by the bytes of operator and key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._env = _environment(path)
        self._states = self._env.open_db(b"states")
        self._undo = self._env.open_db(b"undo")
        self._meta = self._env.open_db(b"meta")

    @property
    def version(self) -> int:
        """The last epoch that is in the states; 0 before the first."""
        with self._env.begin(db=self._meta) as txn:
            return int(txn.get(_VERSION, b"0"))

    def go_to(self, version: int) -> None:
        """Put the states back to `version`, which is this one or the one before."""
        found = self.version
        if found == version:
            return
        if found != version + 1:
            msg = (
                f"state must be of epoch {version}; {self.path} is of epoch {found}; "
                f"it was written by another run: start with an empty directory"
            )
            raise EngineError(msg)
        with self._env.begin(write=True) as txn:
            for key, old in list(txn.cursor(db=self._undo)):
                if old == _ABSENT:
                    txn.delete(key, db=self._states)
                else:
                    txn.put(key, old, db=self._states)
            txn.drop(self._undo, delete=False)
            txn.put(_VERSION, b"%d" % version, db=self._meta)

    def read(self, keys: Iterable[bytes]) -> Mapping[bytes, bytes]:
        """Return the states of keys that have one."""
        with self._env.begin(db=self._states) as txn:
            found = ((key, txn.get(_short(key))) for key in keys)
            return {key: state for key, state in found if state is not None}

    def get(self, key: bytes) -> bytes | None:
        """Return the state of a key."""
        with self._env.begin(db=self._states) as txn:
            state: bytes | None = txn.get(_short(key))
            return state

    def write(self, version: int, changes: Mapping[bytes, bytes]) -> None:
        """Make `version` of the one before it, in one transaction."""
        with self._env.begin(write=True) as txn:
            txn.drop(self._undo, delete=False)
            for key, state in sorted(changes.items()):
                short = _short(key)
                old = txn.get(short, _ABSENT, db=self._states)
                txn.put(short, old, db=self._undo)
                txn.put(short, state, db=self._states)
            txn.put(_VERSION, b"%d" % version, db=self._meta)

    def restore(self, version: int, states: Iterable[tuple[bytes, bytes]]) -> None:
        """Replace everything by what a checkpoint holds."""
        with self._env.begin(write=True) as txn:
            txn.drop(self._undo, delete=False)
            txn.drop(self._states, delete=False)
            for key, state in states:
                txn.put(_short(key), state, db=self._states)
            txn.put(_VERSION, b"%d" % version, db=self._meta)

    def states(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Return all states whose key begins with `prefix`."""
        with self._env.begin(db=self._states) as txn, txn.cursor() as cursor:
            if cursor.set_range(prefix):
                for key, state in cursor:
                    if not key.startswith(prefix):
                        return
                    yield key, state


def close_buckets() -> None:
    """Close every database of this process, when another job begins."""
    for environment in _environments.values():
        environment.close()
    _environments.clear()


def _environment(path: Path) -> lmdb.Environment:
    name = str(path)
    if name not in _environments:
        path.mkdir(parents=True, exist_ok=True)
        _environments[name] = lmdb.open(
            name,
            map_size=_MAP_BYTES,
            max_dbs=3,
            sync=False,  # the durable copy is the checkpoint's
            metasync=False,
            readahead=False,
        )
    return _environments[name]


def _short(key: bytes) -> bytes:
    """Return a key that LMDB takes: a long one is cut and told apart by its hash."""
    if len(key) <= _LONGEST_KEY:
        return key
    return key[: _LONGEST_KEY - 16] + xxhash.xxh3_128_digest(key)
