"""Migrates a checkpoint to a program whose operators or tuple types have changed.

The checkpoint is copied, and the copy is changed: whatever happens meanwhile, the job
that made the old one can continue with it. State files stay as they are, since they are
named by units; the program's description and the records change. A tuple in a state
that lacks an added attribute gets the default of its class when it is read.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from anabranch.connectors.storage import Location, StorePath, remove_tree
from anabranch.epochs.checkpoint.files import checkpoint_errors, durably
from anabranch.epochs.checkpoint.program import COLUMNS
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

Renames: TypeAlias = Mapping[str, str]  # operator -> its new name
V = TypeVar("V")

_ROWS_OF_ONE_SHAPE = ("write_csv", "write_parquet")


class Addition(NamedTuple):
    """An attribute that a tuple type has gained, after its old ones."""

    type: str
    attribute: str
    kind: str


@dataclass(frozen=True)
class Changes:
    """The differences between a program and its checkpoint's."""

    renames: Renames = field(default_factory=dict)
    additions: Sequence[Addition] = ()

    def refuse(self, program: Mapping[str, Any]) -> None:
        """Refuse changes that the checkpoint of a program cannot follow."""
        refuse_renames(program["operators"], self.renames)
        for addition in self.additions:
            refuse_addition(program, addition)
            program = add_attribute(program, addition)

    def apply(self, program: Mapping[str, Any]) -> dict[str, Any]:
        """Return the description of the changed program."""
        for addition in self.additions:
            program = add_attribute(program, addition)
        return rename_program(program, self.renames)


def migrate(old: Location, new: Location, changes: Changes) -> None:
    """Copy a checkpoint to a new place, for a changed program."""
    seal = Seal.from_environment()
    described = read_program(old, seal)
    changes.refuse(described["program"])
    program = {**described, "program": changes.apply(described["program"])}
    with checkpoint_errors(new):
        if new.exists():
            msg = f"a checkpoint moves to a new place; {new} exists; name another one"
            raise CheckpointError(msg)
        if isinstance(new, StorePath):
            _copy(old, new, changes, program, seal)
            return
        new.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{new.name}-", dir=new.parent))
        _copy(old, draft, changes, program, seal)
        draft.rename(new)


def _copy(
    old: Location, new: Location, changes: Changes, program: Any, seal: Seal
) -> None:
    """Copy the files, then the description, then the records, which make it valid."""
    epochs = find_epochs(old)
    records = {record_path(old, epoch) for epoch in epochs}
    try:
        for path, steps in _list_files(old):
            if path not in records and steps != ("program.json",):
                _copy_file(path, new, steps)
        with durably(new / "program.json") as file:
            file.write(seal.attach(json.dumps(program, indent=1).encode()))
        (new / "commits").mkdir(mode=0o700, exist_ok=True)
        for epoch in epochs:
            record = rename_record(read_record(old, epoch, seal), changes.renames)
            with durably(record_path(new, epoch)) as file:
                file.write(seal.attach(to_json(record)))
    except BaseException:
        remove_tree(new)
        raise


def _list_files(place: Location) -> list[tuple[Location, tuple[str, ...]]]:
    """Return the files of a directory, each with its path of names."""
    if isinstance(place, StorePath):
        found: list[Location] = [
            one for one, is_file in place.list(deep=True) if is_file
        ]
    else:
        found = [one for one in place.rglob("*") if one.is_file()]
    return [(one, one.parts[len(place.parts) :]) for one in found]


def _copy_file(path: Location, new: Location, steps: tuple[str, ...]) -> None:
    target = new
    for step in steps[:-1]:
        target = target / step
        target.mkdir(mode=0o700, exist_ok=True)
    with path.open("rb") as source, durably(target / steps[-1]) as file:
        shutil.copyfileobj(source, file)


def refuse_addition(program: Mapping[str, Any], addition: Addition) -> None:
    """Refuse a missing type, an existing attribute, and rows of two shapes."""
    name, attribute, _ = addition
    texts = [
        *program["types"],
        *(one["type"] for one in program["operators"].values() if one["type"]),
    ]
    pattern = re.compile(rf"(?<![\w.>]){re.escape(name)}\(")
    known = sorted({text.partition("(")[0] for text in texts if "(" in text})
    own = [text for text in texts if pattern.search(text)]
    if not own:
        msg = (
            f"only a tuple type that a checkpoint knows can get an attribute; it has no "
            f"{name!r}; it has {', '.join(known) or 'none'}"
        )
        raise CheckpointError(msg)
    if any(re.search(rf"{pattern.pattern}(.*, )?{attribute}: ", text) for text in own):
        msg = f"an added attribute must be new; {name} has {attribute!r}"
        raise CheckpointError(msg)
    for sink, one in program["operators"].items():
        written = one.get(COLUMNS) if one["kind"] in _ROWS_OF_ONE_SHAPE else None
        if written and pattern.search(written):
            msg = (
                f"the rows of an output must have the same columns; sink {sink!r} "
                f"({one['kind']}) has written {name} without {attribute!r}; have it write "
                f"another type, or start again with an empty checkpoint"
            )
            raise CheckpointError(msg)


def add_attribute(program: Mapping[str, Any], addition: Addition) -> dict[str, Any]:
    """Return a program's description with an attribute added to a tuple type.

    >>> old = {"operators": {}, "types": ["Pair(a: Trade(n: int), b: Trade(n: int))"]}
    >>> add_attribute(old, Addition("Trade", "venue", "str"))["types"]
    ['Pair(a: Trade(n: int, venue: str), b: Trade(n: int, venue: str))']
    """
    name, attribute, kind = addition
    added = {**program.get("added", {})}
    added[name] = [*added.get(name, []), attribute]

    def extend(text: str) -> str:
        return _extend_type(text, name, f"{attribute}: {kind}")

    return {
        **program,
        "operators": _map_texts(program["operators"], extend),
        "types": [extend(text) for text in program["types"]],
        "added": added,
    }


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Apply a change to all type descriptions in plain data."""
    match value:
        case dict():
            return {name: _map_texts(one, change) for name, one in value.items()}
        case list():
            return [_map_texts(one, change) for one in value]
        case str() if re.fullmatch(r"[\w.<>]+\(.*\)", value):
            return change(value)
    return value


def _extend_type(text: str, name: str, attribute: str) -> str:
    """Return a type's description with an attribute added wherever it occurs."""
    found = re.search(rf"(?<![\w.>]){re.escape(name)}\(", text)
    if found is None:
        return text
    depth, end = 1, found.end()
    while depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    inside = text[found.end() : end - 1]
    more = f"{inside}, {attribute}" if inside else attribute
    rest = _extend_type(text[end:], name, attribute)
    return f"{text[: found.end()]}{more}){rest}"


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
        finishing=None
        if record.finishing is None
        else (
            renames.get(record.finishing[0], record.finishing[0]),
            record.finishing[1],
        ),
        shared=_rename_keys(record.shared, renames),
    )


def _rename_keys(values: Mapping[str, V], renames: Renames) -> dict[str, V]:
    return {renames.get(name, name): value for name, value in values.items()}
