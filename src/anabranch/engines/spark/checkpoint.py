"""The checkpoint directory, as the driver uses it.

::

    DIR/program.json        whose checkpoint this is, and its identity
    DIR/lock                held while a job runs
    DIR/runs/7              the seventh run that used it
    DIR/commits/N.json      the record of epoch N: it makes the epoch real
    DIR/deliveries/N.pickle what epoch N has for sinks in the driver, until they have it
    DIR/state/UNIT/*.arrow  change logs and snapshots
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anabranch.engines.spark.checkpoint_program import differences
from anabranch.engines.spark.checkpoint_record import (
    FORMAT,
    Record,
    last_epoch,
    read_program,
    read_record,
    record_path,
    to_json,
)
from anabranch.engines.spark.durable import durably
from anabranch.engines.spark.faults import reach
from anabranch.errors import CheckpointError

TURNS = 1_000_000  # of one run; the numbers of later runs are larger
_RECORDS = 2  # that are kept


class Checkpoint:
    """A checkpoint that is open for one run; `last` is the record to go on from."""

    def __init__(self, directory: str, program: Mapping[str, Any]) -> None:
        self.directory = Path(directory).resolve()
        try:
            for name in ("runs", "commits", "deliveries", "state"):
                (self.directory / name).mkdir(parents=True, exist_ok=True)
            self._lock: int | None = self._locked()
        except OSError as error:
            msg = (
                f"a checkpoint must be a directory that can be written; {directory}: "
                f"{error.strerror or error}; check the path and its permissions"
            )
            raise CheckpointError(msg) from error
        try:
            self.identity = self._checked(program)
            epoch = last_epoch(self.directory)
            self.last = None if epoch is None else read_record(self.directory, epoch)
            self.run = self._next_run()
            self._sweep()
        except BaseException:
            self.close()
            raise

    def _locked(self) -> int:
        descriptor = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            msg = (
                f"only one job at a time may use a checkpoint; another one is using "
                f"{self.directory}; wait for its end, or take another directory"
            )
            raise CheckpointError(msg) from error
        return descriptor

    def _checked(self, program: Mapping[str, Any]) -> str:
        """Return the identity; refuse a checkpoint of another program."""
        path = self.directory / "program.json"
        if not path.exists():
            identity = uuid.uuid4().hex[:12]
            made = {"format": FORMAT, "identity": identity, "program": program}
            with durably(path) as file:
                file.write(json.dumps(made, indent=1).encode())
            return identity
        found = read_program(self.directory)
        changed = differences(found["program"], json.loads(json.dumps(program)))
        if changed:
            lines = "\n".join(f"  {line}" for line in changed)
            msg = (
                f"a checkpoint can only be used by the program that made it; "
                f"{self.directory} was made by another one:\n{lines}\n"
                f"take these changes back, or start anew with an empty directory"
            )
            raise CheckpointError(msg)
        return str(found["identity"])

    def _next_run(self) -> int:
        """Return the number of this run, which no other run has or will have."""
        runs = self.directory / "runs"
        while True:
            number = 1 + self._latest_run()
            try:
                (runs / str(number)).touch(exist_ok=False)
            except FileExistsError:
                continue
            for path in runs.iterdir():
                if int(path.name) < number:
                    path.unlink(missing_ok=True)
            return number

    def _latest_run(self) -> int:
        runs = (self.directory / "runs").iterdir()
        return max((int(path.name) for path in runs), default=0)

    def _taken_over(self) -> CheckpointError:
        return CheckpointError(
            f"only one job at a time may use a checkpoint; another one has gone on "
            f"with {self.directory}; this one ends"
        )

    def _sweep(self) -> None:
        """Remove what runs that were killed have left."""
        needed = frozenset() if self.last is None else self.last.files
        for path in (self.directory / "state").glob("*/*"):
            if (path.parent.name, path.name) not in needed:
                path.unlink(missing_ok=True)
        for path in self.directory.glob("*/.*.tmp"):
            path.unlink(missing_ok=True)
        epoch = 0 if self.last is None else self.last.epoch
        for path in (self.directory / "deliveries").glob("*.pickle"):
            if path != self.delivery(epoch):
                path.unlink()

    def delivery(self, epoch: int) -> Path:
        """Return where the items of an epoch wait for the sinks in the driver."""
        return self.directory / "deliveries" / f"{epoch:09}.pickle"

    def commit(self, record: Record, delivery: bytes | None) -> None:
        """Make an epoch real: from now on it has happened, and will not run again."""
        if delivery is not None:
            with durably(self.delivery(record.epoch)) as file:
                file.write(delivery)
        if self._latest_run() > self.run:
            raise self._taken_over()
        try:
            with durably(record_path(self.directory, record.epoch), new=True) as file:
                file.write(to_json(record))
                reach("half-recorded", record.epoch)
        except FileExistsError as error:
            raise self._taken_over() from error
        before, self.last = self.last, record
        if before is not None:
            self._forget(before, record)

    def _forget(self, before: Record, record: Record) -> None:
        """Remove what was needed before and is not any more."""
        for unit, file in before.files - record.files:
            (self.directory / "state" / unit / file).unlink(missing_ok=True)
        old = record_path(self.directory, record.epoch - _RECORDS)
        old.unlink(missing_ok=True)

    def close(self) -> None:
        """Let others use the checkpoint."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
