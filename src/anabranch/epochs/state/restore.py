"""Restores buckets on this host to the versions that an epoch begins with.

Usually they are there already. Those that are not (a bucket was elsewhere for some
epochs, or this host is new) are restored from the checkpoint: the changes since, or a
snapshot and the changes after it. Each file is read once for all buckets that need it. A
newly split bucket gets its keys from the old one: from the checkpoint too or, without
one, from this host.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import xxhash

from anabranch.connectors.storage import Location
from anabranch.epochs.checkpoint.files import read_states
from anabranch.epochs.checkpoint.record import Log, Snapshot, read_record
from anabranch.epochs.checkpoint.seal import Seal
from anabranch.epochs.state.buckets import (
    EMPTY,
    PREFIX_BYTES,
    Stamp,
    count_in_store,
    prefix_of_bucket,
)
from anabranch.epochs.state.store import GONE, NOTHING, BucketStore, Entry
from anabranch.errors import CheckpointError, EngineError
from anabranch.private import private_directory

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_LAYOUT = 5  # of the databases; another one is ignored
_TRIES = 8  # each but the last fails only while another attempt restores


def measure_directory(directory: Path) -> int | None:
    """Return the disk space of the files in a directory; None if there are none.

    >>> measure_directory(Path("/no/such/directory")) is None
    True
    """
    blocks = []
    for path in directory.rglob("*"):
        with contextlib.suppress(OSError):  # it may have been removed in the meantime
            blocks.append(path.stat().st_blocks)
    return sum(blocks) * 512 if blocks else None


def name_states(identity: str, checkpoint: Location) -> str:
    """Return the name of a checkpoint's states on hosts.

    A copy of a checkpoint, as `migrate` makes it, has the same identity, by which its
    outputs are found, and goes on with the same numbers of runs and tries. Its states
    are its own.

    >>> name_states("1a2b", Path("/jobs/old")) == name_states("1a2b", Path("/jobs/new"))
    False
    """
    return f"{identity}-{xxhash.xxh3_64_hexdigest(str(checkpoint).encode())[:8]}"


def local_directory(states_name: str) -> Path:
    """Return where this host keeps its copy of a checkpoint's states.

    The copy is not synced to disk, so it is valid only until the next boot. On a
    cluster it is among the files of the Spark application, which the cluster removes
    from all hosts that it had, also from those whose executors are gone.
    """
    boot = _BOOT.read_text().strip()[:8] if _BOOT.exists() else "0"
    name = f"{states_name}-{boot}-{_LAYOUT}"
    return private_directory("states", name, within=_find_application())


def _find_application() -> str | None:
    """Return the directory of the Spark application that this process works for.

    Standalone clusters and YARN name it to executors; elsewhere it is None.
    """
    if "CONTAINER_ID" in os.environ:  # of YARN
        found = os.environ.get("LOCAL_DIRS", "").split(",")
    else:
        found = os.environ.get("SPARK_EXECUTOR_DIRS", "").split(os.pathsep)
    return found[0] or None


BucketOf: TypeAlias = Callable[[Entry], int]  # the bucket of a state, of today's


class Copy(Protocol):
    """A second copy of states, beside the store."""

    def restore(
        self, store: BucketStore, wanted: Mapping[int, Stamp], turn: int
    ) -> None:
        """Restore versions of buckets."""


@dataclass(frozen=True)
class DurableCopy:
    """A checkpoint's copy of a unit's states, as of the record `committed`.

    The unit has `buckets` buckets, and `bucket_of` tells a state's, where a file was
    written when there were fewer.
    """

    directory: Location
    unit: str
    committed: Stamp
    seal: Seal
    buckets: int
    bucket_of: BucketOf

    def read(self, held: Log | Snapshot, wanted: Sequence[int]) -> Iterator[Entry]:
        """Yield the states of buckets in a file of the checkpoint, sorted."""
        path = self.directory / "state" / self.unit / held.file
        if held.buckets >= self.buckets:
            yield from read_states(path, wanted, self.seal, held.digest)
            return
        for bucket in wanted:
            whole = [bucket % held.buckets]
            entries = read_states(path, whole, self.seal, held.digest)
            yield from choose_own(entries, bucket, self.bucket_of)

    def restore(
        self, store: BucketStore, wanted: Mapping[int, Stamp], turn: int
    ) -> None:
        """Restore versions of buckets from the checkpoint."""
        unread = [number for number, version in wanted.items() if version == EMPTY]
        if unread:
            store.load(EMPTY, unread, turn, [])
        numbers = [number for number in wanted if wanted[number] != EMPTY]
        if not numbers:
            return
        record = read_record(self.directory, self.committed.epoch, self.seal)
        versions = record.versions.get(self.unit)
        known = {} if versions is None else versions.divide(self.buckets).of(numbers)
        if record.stamp != self.committed or any(
            known.get(number, EMPTY) != wanted[number] for number in numbers
        ):
            msg = f"{self.directory} is used by another run; only one may run at a time"
            raise CheckpointError(msg)
        ways: dict[_Way, list[int]] = {}
        here = store.find_versions(numbers)
        files = record.files_of(self.unit, numbers)
        for number in numbers:
            way = _find_way(files[number], here[number], wanted[number])
            ways.setdefault(way, []).append(number)
        for (version, since, some), own in ways.items():
            tables = (self.read(held, sorted(own)) for held in some)
            store.load(version, own, turn, tables, since)


# A version, the version here that it can be made from, and the files that make it.
_Way: TypeAlias = tuple[Stamp, Stamp | None, tuple[Log | Snapshot, ...]]


def _find_way(
    files: Sequence[Log | Snapshot], here: Iterable[Stamp], version: Stamp
) -> _Way:
    """Return how to restore a bucket: from a version that is here, if possible."""
    made = [
        held.version if isinstance(held, Snapshot) else held.stamp for held in files
    ]
    if not (files and isinstance(files[0], Snapshot)):
        made.insert(0, EMPTY)
    usable = [one for one in here if one in made]
    if not usable:
        return version, None, tuple(files)
    since = max(usable)
    later = (one for one in files if isinstance(one, Log) and one.epoch > since.epoch)
    return version, since, tuple(later)


def choose_own(
    entries: Iterable[Entry], bucket: int, bucket_of: BucketOf
) -> Iterator[Entry]:
    """Yield the states of a bucket, given those of the one it was split from.

    What was deleted has no key any more, so it is deleted in both.
    """
    prefix = prefix_of_bucket(bucket)
    for key, state in entries:
        if state == GONE or bucket_of((key, state)) == bucket:
            yield prefix + key[PREFIX_BYTES:], state


@dataclass(frozen=True)
class HostCopy:
    """The states of a unit on this host, before its buckets were split."""

    directory: Path
    buckets: int
    bucket_of: BucketOf

    def restore(
        self, store: BucketStore, wanted: Mapping[int, Stamp], turn: int
    ) -> None:
        """Restore versions of buckets from the last ones that were split."""
        for bucket, version in wanted.items():
            if version == EMPTY:
                store.load(version, [bucket], turn, [])
            elif not self._restore(store, bucket, version, turn):
                (*_, last) = store.find_versions([bucket])[bucket]
                msg = (
                    f"state must be of epoch {version.epoch}; bucket {bucket} in "
                    f"{store.path} is of epoch {last.epoch}, since its host has changed; "
                    f"a job whose state can move needs a checkpoint: run it with "
                    f"checkpoint=DIR"
                )
                raise EngineError(msg)

    def _restore(
        self, store: BucketStore, bucket: int, version: Stamp, turn: int
    ) -> bool:
        for exponent in range(self.buckets.bit_length() - 2, -1, -1):
            fewer = 1 << exponent
            path = store_path(self.directory, bucket % fewer, fewer)
            if not path.exists():
                continue
            whole = BucketStore(path)
            if not whole.begin({bucket % fewer: version}, turn):
                try:
                    own = choose_own(whole.states(), bucket, self.bucket_of)
                    store.load(version, [bucket], turn, [own])
                finally:
                    whole.end()
                return True
        return False


def store_path(directory: Path, bucket: int, buckets: int) -> Path:
    """Return the path of the store of one of `buckets` buckets, below a unit's.

    >>> store_path(Path("u0"), 130, 1024).as_posix()
    'u0/1024/2'
    """
    return directory / str(buckets) / str(bucket // count_in_store(buckets))


def begin_at(
    store: BucketStore,
    wanted: Mapping[int, Stamp],
    turn: int,
    copy: Copy,
    ahead: Mapping[bytes, bytes] = NOTHING,
) -> int:
    """Let `store` read versions plus the changes `ahead`; restore them if necessary.

    Return the number of buckets restored.
    """
    return _until(lambda: store.begin(wanted, turn, ahead), store, wanted, turn, copy)


def write_from(
    store: BucketStore,
    bases: Mapping[int, Stamp],
    stamp: Stamp,
    changes: Sequence[Entry],
    copy: Copy,
    *,
    pending: Container[Stamp] = (),
) -> None:
    """Make the version `stamp` of buckets from `bases`; restore these if necessary.

    They were there when the epoch began, but a surviving task of an earlier try may have
    restored older ones since.
    """
    _until(
        lambda: store.write(bases, stamp, changes, pending),
        store,
        bases,
        stamp.turn,
        copy,
    )


def _until(
    act: Callable[[], list[int]],
    store: BucketStore,
    wanted: Mapping[int, Stamp],
    turn: int,
    copy: Copy,
) -> int:
    """Do what needs versions of buckets; if some are missing, restore them first.

    Return how many were.
    """
    restored: set[int] = set()
    for _ in range(_TRIES):
        missing = act()
        if not missing:
            return len(restored)
        restored.update(missing)
        copy.restore(store, {number: wanted[number] for number in missing}, turn)
    msg = f"{store.path} was changed by another run while it was restored"
    raise EngineError(msg)
