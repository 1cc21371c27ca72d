"""Brings a bucket of this host to the version that an epoch begins with.

Most often it is there already. If not (the bucket was elsewhere for some epochs, or
this host is new) it is made from the checkpoint: the changes since, or a snapshot and
the changes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from anabranch.epochs.checkpoint.files import Entry, read_bucket
from anabranch.epochs.checkpoint.record import Log, Snapshot, read_record
from anabranch.epochs.checkpoint.seal import NO_KEY, Seal
from anabranch.epochs.state.store import EMPTY, Bucket, Stamp
from anabranch.errors import CheckpointError, EngineError
from anabranch.private import private_directory

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_LAYOUT = 2  # of the databases; another one is as good as none
_TRIES = 3  # each but the last can only fail while another attempt restores


def local_directory(identity: str) -> Path:
    """Return where this host keeps its copy of the states of a checkpoint.

    The copy is not synced to the disk, so it counts only until the next boot.
    """
    boot = _BOOT.read_text().strip()[:8] if _BOOT.exists() else "0"
    return private_directory("states", f"{identity}-{boot}-{_LAYOUT}")


@dataclass(frozen=True)
class DurableCopy:
    """Where a checkpoint keeps the states of a bucket, as of the record `committed`."""

    directory: Path
    unit: str
    bucket: int
    committed: Stamp
    seal: Seal = NO_KEY

    def read(self, held: Log | Snapshot) -> Iterator[Entry]:
        """Return the states in a file of the checkpoint."""
        path = self.directory / "state" / self.unit / held.file
        return read_bucket(path, self.bucket, self.seal, held.digest)


def begin_at(
    bucket: Bucket, version: Stamp, turn: int, copy: DurableCopy | None
) -> None:
    """Have `bucket` read from a version; restore it if need be."""
    _until(lambda: bucket.begin(version, turn), bucket, version, turn, copy)


def write_from(
    bucket: Bucket,
    base: Stamp,
    stamp: Stamp,
    changes: Mapping[bytes, bytes],
    copy: DurableCopy | None,
) -> None:
    """Make the version `stamp` of a bucket from `base`; restore that if need be.

    It was there when the epoch began, but a task of an earlier try that lives on may
    have restored an older one since.
    """
    _until(lambda: bucket.write(base, stamp, changes), bucket, base, stamp.turn, copy)


def _until(
    act: Callable[[], bool],
    bucket: Bucket,
    version: Stamp,
    turn: int,
    copy: DurableCopy | None,
) -> None:
    """Do what needs a version of a bucket; if it is not there, restore it first."""
    for _ in range(_TRIES):
        if act():
            return
        if copy is None:
            msg = (
                f"state must be of epoch {version.epoch}; {bucket.path} is of epoch "
                f"{bucket.stamp.epoch}, since its host has changed; a job whose state "
                f"can move needs a checkpoint: run it with checkpoint=DIR"
            )
            raise EngineError(msg)
        restore(bucket, version, turn, copy)
    msg = f"{bucket.path} was changed by another run while it was restored"
    raise EngineError(msg)


def restore(bucket: Bucket, version: Stamp, turn: int, copy: DurableCopy) -> None:
    """Make a version of a bucket from the checkpoint."""
    if version == EMPTY:
        bucket.load(version, turn, [])
        return
    record = read_record(copy.directory, copy.committed.epoch, copy.seal)
    unit, number = copy.unit, copy.bucket
    if record.stamp != copy.committed or record.version_of(unit, number) != version:
        msg = f"{copy.directory} is used by another run; only one at a time may go on"
        raise CheckpointError(msg)
    usable = [one for one in bucket.versions if record.leads_from(unit, number, one)]
    if usable:
        since = max(usable)
        logs = record.logs_of(unit, number, since.epoch)
        bucket.load(version, turn, map(copy.read, logs), since)
        return
    bucket.load(version, turn, map(copy.read, record.files_of_bucket(unit, number)))
