"""Restores a bucket on this host to the version that an epoch begins with.

Usually it is there already. If not (the bucket was elsewhere for some epochs, or this
host is new), it is restored from the checkpoint: the changes since, or a snapshot and
the changes after it. A newly split bucket gets its keys from the old one: from the
checkpoint too or, without one, from this host.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from anabranch.connectors.storage import Location
from anabranch.epochs.checkpoint.files import Entry, read_bucket
from anabranch.epochs.checkpoint.record import (
    FEWEST_BUCKETS,
    Log,
    Snapshot,
    read_record,
)
from anabranch.epochs.checkpoint.seal import NO_KEY, Seal
from anabranch.epochs.state.store import EMPTY, NOTHING, Bucket, Stamp
from anabranch.errors import CheckpointError, EngineError
from anabranch.private import private_directory

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_LAYOUT = 4  # of the databases; another one is ignored
_TRIES = 3  # each but the last fails only while another attempt restores


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


def local_directory(identity: str) -> Path:
    """Return where this host keeps its copy of a checkpoint's states.

    The copy is not synced to disk, so it is valid only until the next boot.
    """
    boot = _BOOT.read_text().strip()[:8] if _BOOT.exists() else "0"
    return private_directory("states", f"{identity}-{boot}-{_LAYOUT}")


Owns: TypeAlias = Callable[[Entry], bool]  # whether a state belongs to a bucket


def own_all(_: Entry) -> bool:
    """Return True: every state belongs to the bucket."""
    return True


class Copy(Protocol):
    """A second copy of a bucket's states, beside its database."""

    def restore(self, bucket: Bucket, version: Stamp, turn: int) -> None:
        """Restore a version of the bucket."""


@dataclass(frozen=True)
class DurableCopy:
    """A checkpoint's copy of a bucket's states, as of the record `committed`.

    It is one of `buckets` buckets, and `owns` selects its states of an unsplit one.
    """

    directory: Location
    unit: str
    bucket: int
    committed: Stamp
    seal: Seal = NO_KEY
    buckets: int = FEWEST_BUCKETS
    owns: Owns = own_all

    def read(self, held: Log | Snapshot) -> Iterator[Entry]:
        """Yield the states in a file of the checkpoint."""
        path = self.directory / "state" / self.unit / held.file
        number = self.bucket % held.buckets
        entries = read_bucket(path, number, self.seal, held.digest)
        if held.buckets >= self.buckets:
            return entries
        return filter(self.owns, entries)

    def restore(self, bucket: Bucket, version: Stamp, turn: int) -> None:
        """Restore a version of the bucket from the checkpoint."""
        if version == EMPTY:
            bucket.load(version, turn, [])
            return
        record = read_record(self.directory, self.committed.epoch, self.seal)
        unit, number = self.unit, self.bucket
        if record.stamp != self.committed or record.version_of(unit, number) != version:
            msg = f"{self.directory} is used by another run; only one may run at a time"
            raise CheckpointError(msg)
        usable = [
            one for one in bucket.versions if record.leads_from(unit, number, one)
        ]
        if usable:
            since = max(usable)
            logs = record.logs_of(unit, number, since.epoch)
            bucket.load(version, turn, map(self.read, logs), since)
            return
        files = record.files_of_bucket(unit, number)
        bucket.load(version, turn, map(self.read, files))


@dataclass(frozen=True)
class HostCopy:
    """The local buckets that a bucket, one of `buckets`, was split from."""

    directory: Path
    bucket: int
    buckets: int
    owns: Owns

    def restore(self, bucket: Bucket, version: Stamp, turn: int) -> None:
        """Restore a version of the bucket from the last one that was split."""
        if version == EMPTY:
            bucket.load(version, turn, [])
            return
        for fewer in range(self.buckets.bit_length() - 2, -1, -1):
            path = bucket_path(self.directory, self.bucket % (1 << fewer), 1 << fewer)
            if not path.exists():
                continue
            whole = Bucket(path)
            if whole.begin(version, turn):
                try:
                    bucket.load(version, turn, [filter(self.owns, whole.states())])
                finally:
                    whole.end()
                return
        msg = (
            f"state must be of epoch {version.epoch}; {bucket.path} is of epoch "
            f"{bucket.stamp.epoch}, since its host has changed; a job whose state "
            f"can move needs a checkpoint: run it with checkpoint=DIR"
        )
        raise EngineError(msg)


def bucket_path(directory: Path, bucket: int, buckets: int) -> Path:
    """Return the path of one of `buckets` buckets, below a unit's directory.

    >>> bucket_path(Path("u0"), 3, 16).as_posix()
    'u0/16/3'
    """
    return directory / str(buckets) / str(bucket)


def begin_at(
    bucket: Bucket,
    version: Stamp,
    turn: int,
    copy: Copy,
    ahead: dict[bytes, bytes] = NOTHING,
) -> bool:
    """Let `bucket` read a version plus the changes `ahead`; restore it if necessary.

    Return whether it was necessary.
    """
    return _until(
        lambda: bucket.begin(version, turn, ahead), bucket, version, turn, copy
    )


def write_from(
    bucket: Bucket,
    base: Stamp,
    stamp: Stamp,
    changes: Mapping[bytes, bytes],
    copy: Copy,
    *,
    pending: Container[Stamp] = (),
) -> None:
    """Make the version `stamp` of a bucket from `base`; restore that if necessary.

    It was there when the epoch began, but a surviving task of an earlier try may have
    restored an older one since.
    """
    _until(
        lambda: bucket.write(base, stamp, changes, pending),
        bucket,
        base,
        stamp.turn,
        copy,
    )


def _until(
    act: Callable[[], bool],
    bucket: Bucket,
    version: Stamp,
    turn: int,
    copy: Copy,
) -> bool:
    """Do what needs a version of a bucket; if it is missing, restore it first.

    Return whether it was restored.
    """
    for number in range(_TRIES):
        if act():
            return number > 0
        copy.restore(bucket, version, turn)
    msg = f"{bucket.path} was changed by another run while it was restored"
    raise EngineError(msg)
