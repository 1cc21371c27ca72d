"""`anabranch dashboard`: look at a run again, or at one that goes on elsewhere."""

from __future__ import annotations

import argparse
import threading
from pathlib import Path

from anabranch.cli.console import at_least, local_path, words
from anabranch.dashboard.server import Server
from anabranch.errors import DashboardError
from anabranch.metrics.run_record import Follower


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "dashboard",
        help="look at a run again that had a dashboard",
        description="Serve the record that a run with --ui has written, until Ctrl-C.",
        epilog="example:\n  anabranch dashboard run.jsonl\n",
    )
    parser.add_argument("record", metavar="FILE.jsonl", type=local_path)
    parser.add_argument(
        "--port",
        type=at_least(1),
        default=0,
        metavar="N",
        help="the port (default: one that is free)",
    )
    parser.set_defaults(command=dashboard)


def dashboard(arguments: argparse.Namespace) -> int:
    """Serve a record until somebody ends it, which is how it should end."""
    check(arguments.record)
    server = Server(arguments.port)
    words().print(f"dashboard: {server.address}  (Ctrl-C ends it)", markup=False)
    server.begin(arguments.record)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()
    return 0


def check(record: Path) -> None:
    """Refuse a file that no run has written."""
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
