"""`anabranch apps`, and the folders of the project that are not installed with the package."""

from __future__ import annotations

import argparse
import ast
import os
from pathlib import Path

from rich.console import Console
from rich.table import Table

from anabranch.cli.console import CommandError

_PROJECT = Path(__file__).resolve().parents[3]


def project_folder(name: str) -> Path:
    """Return `apps` or `bench`: of the checkout that is installed, or of this folder."""
    for root in (_PROJECT, Path.cwd()):
        if (root / name).is_dir() and (root / "pyproject.toml").is_file():
            return root / name
    msg = f"{name}/ is part of the project's repository; run this in a checkout of it"
    raise CommandError(msg)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "apps",
        help="list the applications that come with the project",
        description="List the applications that come with the project, to run and read.",
    )
    parser.set_defaults(command=apps)


def apps(arguments: argparse.Namespace) -> int:  # noqa: ARG001 - as any command
    """List the applications."""
    table = Table.grid(padding=(0, 2))
    for path in sorted(project_folder("apps").glob("*.py")):
        table.add_row(os.path.relpath(path), first_line(path))
    Console(highlight=False).print(table)
    return 0


def first_line(path: Path) -> str:
    """Return the first line of a file's docstring."""
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return doc.partition("\n")[0]
