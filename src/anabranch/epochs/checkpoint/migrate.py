"""Move a checkpoint to a program in which operators have other names.

The checkpoint is copied, and the copy is changed: whatever happens meanwhile, the job
that made the old one can go on with it. States lie where they lay, since files are named
by units; what changes is the description of the program and the records.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from anabranch.epochs.checkpoint.files import checkpoint_errors, durably
from anabranch.epochs.checkpoint.record import (
    Record,
    find_epochs,
    read_program,
    read_record,
    record_path,
    to_json,
)
from anabranch.epochs.checkpoint.seal import Seal
from anabranch.errors import CheckpointError

Renames: TypeAlias = Mapping[str, str]  # name of an operator -> its new one
V = TypeVar("V")


def migrate(old: Path, new: Path, renames: Renames) -> None:
    """Copy a checkpoint to a new directory, with operators renamed."""
    seal = Seal.from_environment()
    described = read_program(old, seal)
    refuse_renames(described["program"]["operators"], renames)
    with checkpoint_errors(new):
        if new.exists():
            msg = (
                f"a checkpoint moves to a new directory; {new} exists; name another one"
            )
            raise CheckpointError(msg)
        new.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{new.name}-", dir=new.parent))
        try:
            shutil.copytree(old, draft, dirs_exist_ok=True)
            for epoch in find_epochs(draft):
                record = rename_record(read_record(draft, epoch, seal), renames)
                with durably(record_path(draft, epoch)) as file:
                    file.write(seal.attach(to_json(record)))
            program = rename_program(described["program"], renames)
            with durably(draft / "program.json") as file:
                text = json.dumps({**described, "program": program}, indent=1)
                file.write(seal.attach(text.encode()))
            draft.rename(new)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise


def refuse_renames(operators: Mapping[str, Any], renames: Renames) -> None:
    """Refuse names that do not exist, names that are taken, and sinks.

    >>> scan = {"role": "state"}
    >>> refuse_renames({"scan": scan}, {"scna": "sum"})
    Traceback (most recent call last):
    anabranch.errors.CheckpointError: only what a checkpoint knows can be renamed; it has no 'scna'; it has scan
    """
    for old, new in renames.items():
        if old not in operators:
            msg = (
                f"only what a checkpoint knows can be renamed; it has no {old!r}; it has "
                f"{', '.join(operators)}"
            )
            raise CheckpointError(msg)
        if operators[old]["role"] == "sink":
            msg = (
                f"a sink must keep its name, under which its published parts are listed; "
                f"{old!r} is one; give the sink of the program name={old!r}"
            )
            raise CheckpointError(msg)
        if new in operators and new not in renames:
            msg = f"names must differ; {new!r} is the name of another operator"
            raise CheckpointError(msg)
    if len(set(renames.values())) < len(renames):
        msg = f"names must differ; got {', '.join(renames.values())}"
        raise CheckpointError(msg)


def rename_program(program: Mapping[str, Any], renames: Renames) -> dict[str, Any]:
    """Return the description of a program with operators renamed.

    >>> scan = {"role": "state", "fed by": [["read"]]}
    >>> old = {"operators": {"read": {"fed by": []}, "scan": scan}, "states": {"scan": 1}}
    >>> new = rename_program(old, {"scan": "sum", "read": "trades"})
    >>> new["states"], new["operators"]["sum"]["fed by"]
    ({'sum': 1}, [['trades']])
    """
    operators = {
        name: {
            **one,
            "fed by": [
                sorted(renames.get(origin, origin) for origin in origins)
                for origins in one["fed by"]
            ],
        }
        for name, one in program["operators"].items()
    }
    return {
        **program,
        "operators": _rename_keys(operators, renames),
        "states": _rename_keys(program["states"], renames),
    }


def rename_record(record: Record, renames: Renames) -> Record:
    """Return a record with operators renamed.

    >>> rename_record(Record(1, read={"read": 7}), {"read": "trades"}).read
    {'trades': 7}
    """
    return replace(
        record,
        positions=_rename_keys(record.positions, renames),
        read=_rename_keys(record.read, renames),
        finished=tuple(renames.get(name, name) for name in record.finished),
        shared=_rename_keys(record.shared, renames),
    )


def _rename_keys(values: Mapping[str, V], renames: Renames) -> dict[str, V]:
    return {renames.get(name, name): value for name, value in values.items()}
