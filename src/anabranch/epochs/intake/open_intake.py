"""The intake of each kind of source."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from anabranch.connectors.files.input_files import input_files
from anabranch.connectors.open import open_reader
from anabranch.connectors.reader import damage_of
from anabranch.connectors.storage import Location
from anabranch.epochs.cluster import Backend
from anabranch.epochs.intake.connectors import intake_of_source
from anabranch.epochs.intake.files import FileIntake, FollowIntake, ParquetIntake
from anabranch.epochs.intake.intake import Intake
from anabranch.epochs.intake.items import GeneratedIntake, ListedIntake
from anabranch.epochs.transport.pickle import Pickler
from anabranch.epochs.transport.ship import travels
from anabranch.errors import InputError
from anabranch.graph.graph import Op
from anabranch.operators.sources import (
    FromIterable,
    FromSpark,
    Generate,
    ReadFiles,
)
from anabranch.runtime.failures import OnError, stop

_SLICED = (list, tuple, range)  # others may take no slice, or count from elsewhere


def open_intake(
    op: Op,
    pickler: Pickler,
    on_error: OnError,
    backend: Backend,
    *,
    scratch: Path,
    checkpoint: Location | None = None,
    here: bool = False,
) -> Intake:
    """Return the intake of a source.

    Every worker reads a generator for itself, unless it must be read `here`, once,
    because its code has effects or depends on the outside world.

    Files of an intake go to `scratch` or, if the job has a `checkpoint`, to that.
    """
    match op.kind:
        case FromIterable(items=Sequence() as items) if type(items) in _SLICED:
            return ListedIntake(op.name, items, pickler, backend.share)
        case Generate() if not here and travels((op.kind.factory, op.kind.born)):
            return GeneratedIntake(op.name)
        case FromIterable() | Generate():
            return ListedIntake(
                op.name, iter(open_reader(op, on_error)), pickler, backend.share
            )
        case ReadFiles():
            return _of_files(op, op.kind, on_error)
        case FromSpark():
            return backend.open_frame(op, scratch, checkpoint)
    return intake_of_source(op, pickler)


def refuse_changed_files(op: Op, position: Any) -> None:
    """Refuse the files of a source that have changed since they were read to a position.

    Other sources have no fingerprint.
    """
    if not isinstance(op.kind, ReadFiles) or op.kind.follow:
        return
    with closing(_of_files(op, op.kind, stop)) as intake:
        intake.seek(position)


def _of_files(op: Op, kind: ReadFiles, on_error: OnError) -> Intake:
    if kind.follow:
        return FollowIntake(op, on_error)
    files = input_files(kind.path, partitioned=kind.format == "parquet")

    def leave_out(path: Location, why: InputError) -> None:
        on_error(damage_of(op, path, why))

    if kind.format == "parquet":
        return ParquetIntake(op.name, kind, files, leave_out)
    return FileIntake(op.name, kind, files, leave_out, ahead=True)
