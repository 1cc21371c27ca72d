"""`anabranch dashboard`: show a recorded run again, or compare two."""

from __future__ import annotations

import argparse
import contextlib
import threading
from pathlib import Path

from anabranch.cli.console import at_least, local_path, words
from anabranch.dashboard.server import Server
from anabranch.errors import DashboardError
from anabranch.metrics.run_record import Follower

EXAMPLES = """\
examples:
  anabranch dashboard run.jsonl
  anabranch dashboard after.jsonl before.jsonl    # compare two runs
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "dashboard",
        help="show a recorded run, or compare two",
        description="Serve the record that a run with --ui has written, until Ctrl-C. "
        "With a second record, show both runs in the same charts.",
        epilog=EXAMPLES,
    )
    parser.add_argument("record", metavar="FILE.jsonl", type=local_path)
    parser.add_argument(
        "other",
        metavar="OTHER.jsonl",
        nargs="?",
        type=local_path,
        help="the record of an earlier run to compare it with",
    )
    parser.add_argument(
        "--port",
        type=at_least(1),
        default=0,
        metavar="N",
        help="the port (default: any free one)",
    )
    parser.set_defaults(command=dashboard)


def dashboard(arguments: argparse.Namespace) -> int:
    """Serve a record until interrupted, which is the normal end."""
    check(arguments.record)
    if arguments.other is not None:
        check(arguments.other)
    server = Server(arguments.port)
    with contextlib.closing(server), contextlib.suppress(KeyboardInterrupt):
        words().print(f"dashboard: {server.address}  (Ctrl-C ends it)", markup=False)
        server.begin(arguments.record, arguments.other)
        threading.Event().wait()
    return 0


def check(record: Path) -> None:
    """Refuse a file that is not the record of a run."""
    try:
        known = bool(Follower(record).story().program)
    except OSError as error:
        msg = f"{record} must be the record of a run; {error.strerror}"
        raise DashboardError(msg) from error
    except (ValueError, TypeError, KeyError):
        known = False
    if not known:
        msg = (
            f"{record} must be the record of a run; it is another kind of file; "
            "a run with --ui says where its record is"
        )
        raise DashboardError(msg)
