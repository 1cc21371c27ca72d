"""`anabranch apps` and `anabranch bench`: available only in a checkout of the
project.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import subprocess
import sys
from pathlib import Path

from anabranch.cli.console import CommandError

_PROJECT = Path(__file__).resolve().parents[3]


def find_folder(name: str) -> Path | None:
    """Return `apps` or `bench`: of the installed checkout, or of this folder."""
    for root in (_PROJECT, Path.cwd()):
        if (root / name).is_dir() and (root / "pyproject.toml").is_file():
            return root / name
    return None


def add_apps(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser, if there are applications."""
    folder = find_folder("apps")
    if folder is None:
        return
    parser = commands.add_parser(
        "apps",
        help="list the applications that come with the project",
        description="List the applications that come with the project, to run and read.",
    )
    parser.set_defaults(command=apps, folder=folder)


def apps(arguments: argparse.Namespace) -> int:
    """List the applications."""
    found = sorted(arguments.folder.glob("*.py"))
    rows = [(os.path.relpath(path), first_line(path)) for path in found]
    width = max((len(path) for path, _ in rows), default=0)
    for path, line in rows:
        print(f"{path:<{width}}  {line}")  # noqa: T201 - the result
    return 0


def first_line(path: Path) -> str:
    """Return the first line of a file's docstring."""
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return doc.partition("\n")[0]


def describe(name: str, script: Path) -> str:
    """Return the help of a benchmark without options: it would start measuring."""
    doc = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    return f"usage: anabranch bench {name} [ARGUMENT...]\n\n{doc}"


ALL = "harness/results"  # runs all the others; called `all`


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser, if there are benchmarks."""
    folder = find_folder("bench")
    if folder is None:
        return
    parser = commands.add_parser(
        "bench",
        help="run a benchmark of the project",
        description="Run a benchmark of the project: NAME is its path below bench/.",
        epilog="example:\n  anabranch bench compile/time 100 1000\n",
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="none: list them")
    parser.add_argument(
        "rest", metavar="...", nargs=argparse.REMAINDER, help="passed on to it"
    )
    parser.set_defaults(command=bench, folder=folder)


def bench(arguments: argparse.Namespace) -> int:
    """Run the benchmark in a process of its own, or list all."""
    scripts = benchmarks(arguments.folder)
    if arguments.name is None:
        for name, script in scripts.items():
            print(f"{name:<20} {first_line(script)}")  # noqa: T201 - the result
        return 0
    by_flat_name = {flat_name(name): name for name in scripts}
    wanted = flat_name(arguments.name)
    if wanted not in by_flat_name:
        close = difflib.get_close_matches(wanted, by_flat_name, n=1)
        meant = (
            f"did you mean {by_flat_name[close[0]]!r}?"
            if close
            else "`anabranch bench` lists all benchmarks"
        )
        msg = f"there is no benchmark {arguments.name!r}; {meant}"
        raise CommandError(msg)
    script = scripts[by_flat_name[wanted]]
    asks = not {"-h", "--help"}.isdisjoint(arguments.rest)
    if asks and "argparse" not in script.read_text(encoding="utf-8"):
        print(describe(by_flat_name[wanted], script))  # noqa: T201 - the result
        return 0
    return subprocess.run(
        [*command_of(by_flat_name[wanted]), *arguments.rest],
        env=variables_of(arguments.folder),
        check=False,
    ).returncode


def benchmarks(folder: Path) -> dict[str, Path]:
    """Return the runnable scripts by name: files, and folders with a main file.

    A script has a function `main`; a module for others has none, and is no benchmark.
    """
    files = {f"{path.parent.name}/{path.stem}": path for path in folder.glob("*/*.py")}
    folders = {path.parent.name: path for path in folder.glob("*/__main__.py")}
    found = {
        name: path
        for name, path in sorted((files | folders).items())
        if path in folders.values() or "\ndef main(" in path.read_text("utf-8")
        if not name.endswith("/__main__")
    }
    return {"all": found.pop(ALL), **found} if ALL in found else found


def command_of(name: str) -> list[str]:
    """Return the command that runs a benchmark.

    >>> command_of("safe/fig7")[1:]
    ['-m', 'bench.safe.fig7']
    """
    path = ALL if name == "all" else name
    return [sys.executable, "-m", f"bench.{path.replace('/', '.')}"]


def variables_of(folder: Path) -> dict[str, str]:
    """Return the environment in which `folder` can be imported as a package."""
    ways = (str(folder.parent), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, ways))}


def flat_name(name: str) -> str:
    """Return a normalized name, to compare spellings.

    >>> flat_name("safe/fig7") == flat_name("safe-fig7") == flat_name("safe_fig7")
    True
    """
    return name.replace("/", "_").replace("-", "_")
