"""`anabranch checkpoint`: show a checkpoint, export its states, or migrate it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.cli.console import (
    CommandError,
    checkpoint_place,
    words,
)
from anabranch.connectors.storage import StorePath
from anabranch.epochs.checkpoint.contents import Contents
from anabranch.epochs.checkpoint.files import durably
from anabranch.epochs.checkpoint.migrate import Addition, Changes, migrate

EXAMPLES = """\
examples:
  anabranch checkpoint show jobs/vwap.checkpoint
  anabranch checkpoint jobs/vwap.checkpoint --export scan -o states.jsonl
  anabranch checkpoint jobs/vwap.checkpoint --export u1/scan -o states.parquet
  anabranch checkpoint migrate jobs/vwap.checkpoint --rename scan=total -o jobs/new
  anabranch checkpoint migrate s3://jobs/vwap --add Trade.venue=str -o s3://jobs/new
"""


_HIDDEN = ("print", "look", "passed")  # of positions: fingerprints of files


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "checkpoint",
        help="inspect, export or migrate a checkpoint",
        description="Show the program and the epoch of a checkpoint, the position of each "
        "source, and the keys and bytes of each bucket of states.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "action",
        nargs="?",
        choices=["show", "migrate"],
        default="show",
        help="show it (default), or copy it for a program that has changed",
    )
    parser.add_argument("directory", metavar="DIR", type=checkpoint_place)
    parser.add_argument("--json", action="store_true", help="as data, for programs")
    parser.add_argument(
        "--export", metavar="[UNIT/]OPERATOR", help="write the states of an operator"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE.jsonl|FILE.parquet|DIR",
        type=checkpoint_place,
        help="where to",
    )
    parser.add_argument(
        "--rename",
        action="append",
        default=[],
        type=parse_rename,
        metavar="OLD=NEW",
        help="with migrate: an operator or a source that was renamed",
    )
    parser.add_argument(
        "--add",
        action="append",
        default=[],
        type=parse_addition,
        metavar="TYPE.ATTRIBUTE=KIND",
        help="with migrate: an attribute that was added at the end of a tuple type, with "
        "a default, such as Trade.venue=str",
    )
    parser.set_defaults(command=checkpoint)


def checkpoint(arguments: argparse.Namespace) -> int:
    """Print a checkpoint, export from it, or copy it for another program."""
    if arguments.action == "migrate":
        return copy_changed(arguments)
    if (arguments.export is None) != (arguments.output is None):
        msg = "--export OPERATOR and -o FILE go together; one of them is missing"
        raise CommandError(msg)
    contents = Contents(arguments.directory)
    if arguments.export is not None:
        if isinstance(arguments.output, StorePath):
            msg = (
                f"states are exported to this machine; {arguments.output} is in a store"
            )
            raise CommandError(msg)
        try:
            count = export(contents, arguments.export, arguments.output)
        except OSError as error:
            msg = f"{arguments.output} must be writable; {error.strerror or error}"
            raise CommandError(msg) from error
        words().print(f"{count} states -> {arguments.output}", markup=False)
        return 0
    shown = (
        json.dumps(as_data(contents), indent=2)
        if arguments.json
        else "\n".join(as_text(contents))
    )
    print(shown)  # noqa: T201 - the result of the command
    return 0


def copy_changed(arguments: argparse.Namespace) -> int:
    """Copy a checkpoint for a program that has changed."""
    changed = arguments.rename or arguments.add
    if not changed or arguments.output is None:
        msg = (
            "migrate needs --rename OLD=NEW or --add TYPE.ATTRIBUTE=KIND, and -o DIR for "
            "the copy"
        )
        raise CommandError(msg)
    changes = Changes(dict(arguments.rename), arguments.add)
    migrate(arguments.directory, arguments.output, changes)
    words().print(
        f"{arguments.directory} -> {arguments.output}; run the program with "
        f"--checkpoint {arguments.output}",
        markup=False,
    )
    return 0


def parse_addition(text: str) -> Addition:
    """Parse the value of `--add`.

    >>> parse_addition("Trade.venue=str")
    Addition(type='Trade', attribute='venue', kind='str')
    """
    where, _, kind = text.partition("=")
    name, _, attribute = where.rpartition(".")
    if not name or not attribute.isidentifier() or not kind:
        msg = f"must be TYPE.ATTRIBUTE=KIND; got {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return Addition(name, attribute, kind)


def parse_rename(text: str) -> tuple[str, str]:
    """Parse the value of `--rename`.

    >>> parse_rename("scan=total")
    ('scan', 'total')
    """
    old, _, new = text.partition("=")
    if not old or not new:
        msg = f"must be OLD=NEW; got {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return old, new


def as_data(contents: Contents) -> dict[str, Any]:
    """Return the contents of a checkpoint as plain data."""
    record = contents.record
    return {
        "identity": contents.identity,
        "program": contents.program,
        "epoch": record.epoch,
        "complete": record.complete,
        "finished": list(record.finished),
        "positions": dict(record.positions),
        "read": dict(record.read),
        "delivered": dict(record.delivered),
        "buckets": [held._asdict() for held in contents.buckets()],
    }


def as_text(contents: Contents) -> Iterator[str]:
    """Yield the contents of a checkpoint in words, line by line."""
    record = contents.record
    state = ", complete" if record.complete else ""
    yield f"checkpoint {contents.identity}: epoch {record.epoch}{state}"
    yield ""
    for name, op in contents.program["operators"].items():
        yield f"  {name:<20} {op['kind']:<14} {_describe_operator(contents, name):<40} {op['line']}"
    yield ""
    yield f"  {'unit':<6} {'bucket':>6} {'keys':>12} {'bytes':>14}"
    held = contents.buckets()
    for one in held:
        yield f"  {one.unit:<6} {one.bucket:>6} {one.keys:>12,} {one.size:>14,}"
    keys, size = sum(one.keys for one in held), sum(one.size for one in held)
    yield f"  {'all':<6} {'':>6} {keys:>12,} {size:>14,}"


def _describe_operator(contents: Contents, name: str) -> str:
    """Describe an operator."""
    record, op = contents.record, contents.program["operators"][name]
    if name in record.positions:
        shown = {k: v for k, v in record.positions[name].items() if k not in _HIDDEN}
        where = ", ".join(f"{k} {v}" for k, v in shown.items())
        return f"read {record.read.get(name, 0):,}; {where}"
    if op["role"] == "sink":
        return f"delivered {record.delivered.get(name, 0):,}"
    place = contents.program["states"].get(name, {})
    key = f" by {', '.join(op['key'])}" if op["key"] else ""
    done = ", finished" if name in record.finished else ""
    return f"state in {place.get('unit')}{key}{done}"


def export(contents: Contents, operator: str, path: Path) -> int:
    """Write the states of an operator and return their number."""
    rows = ({"key": key, "state": state} for key, state in contents.states(operator))
    if path.suffix == ".jsonl":
        count = 0
        with durably(path) as file:  # nothing is left behind if a state is missing
            for count, row in enumerate(rows, 1):  # noqa: B007 - the last one counts
                file.write(f"{json.dumps(row, ensure_ascii=False)}\n".encode())
        return count
    if path.suffix != ".parquet":
        msg = f"states are exported to .jsonl or .parquet; got {path}"
        raise CommandError(msg)
    held = list(rows)
    try:
        table = pa.Table.from_pylist(held)
        pq.write_table(table, path)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        # States of several shapes do not fit one column type; as JSON they do.
        texts = [{name: json.dumps(row[name]) for name in row} for row in held]
        pq.write_table(pa.Table.from_pylist(texts), path)
    return len(held)
