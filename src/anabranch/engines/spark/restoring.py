"""Brings a bucket of this host to the version that an epoch begins with.

Most often it is there already. If not (the bucket was elsewhere for some epochs, or
this host is new) it is made from the checkpoint: the changes since, or a snapshot and
the changes after it.
"""

from __future__ import annotations

import getpass
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anabranch.engines.spark.checkpoint_files import Entry, read_bucket
from anabranch.engines.spark.checkpoint_record import read_record
from anabranch.engines.spark.store import EMPTY, Bucket, Stamp
from anabranch.errors import CheckpointError, EngineError

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def local_directory(identity: str) -> Path:
    """Return where this host keeps its copy of the states of a checkpoint.

    The copy is not synced to the disk, so it counts only until the next boot.
    """
    boot = _BOOT.read_text().strip()[:8] if _BOOT.exists() else "0"
    name = f"anabranch-{getpass.getuser()}-{identity}-{boot}"
    return Path(tempfile.gettempdir()) / name


@dataclass(frozen=True)
class DurableCopy:
    """Where a checkpoint keeps the states of a bucket."""

    directory: Path
    unit: str
    bucket: int

    def read(self, file: str) -> Iterator[Entry]:
        """Return the states in a file of the checkpoint."""
        return read_bucket(self.directory / "state" / self.unit / file, self.bucket)


def begin_at(bucket: Bucket, base: Stamp, turn: int, copy: DurableCopy | None) -> None:
    """Have `bucket` read from version `base`; restore it if need be."""
    if bucket.begin(base, turn):
        return
    if copy is None:
        msg = (
            f"state must be of epoch {base.epoch}; {bucket.path} is of epoch "
            f"{bucket.stamp.epoch}, since its host has changed; a job whose state can "
            f"move needs a checkpoint: run it with checkpoint=DIR"
        )
        raise EngineError(msg)
    restore(bucket, base, copy)
    if not bucket.begin(base, turn):
        msg = f"{bucket.path} was changed by another run while it was restored"
        raise EngineError(msg)


def restore(bucket: Bucket, base: Stamp, copy: DurableCopy) -> None:
    """Make version `base` of a bucket from the checkpoint."""
    if base == EMPTY:
        bucket.load(base, [], anew=True)
        return
    record = read_record(copy.directory, base.epoch)
    if record.stamp != base:
        msg = f"{copy.directory} is used by another run; only one at a time may go on"
        raise CheckpointError(msg)
    snapshot = record.snapshot_of(copy.unit, copy.bucket)
    oldest = 0 if snapshot is None else snapshot.epoch
    found = bucket.stamp
    usable = record.has_been(found) and oldest <= found.epoch
    since = found.epoch if usable else oldest
    files = [log.file for log in record.logs_of(copy.unit, copy.bucket, since)]
    if not usable and snapshot is not None:
        files.insert(0, snapshot.file)
    bucket.load(base, map(copy.read, files), anew=not usable)
