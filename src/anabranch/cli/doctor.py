"""`anabranch doctor`: problems of this machine, and the commands that fix them."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.text import Text

from anabranch.cli.console import load_sinks, words
from anabranch.connectors.base import Sink, Source
from anabranch.graph.graph import Graph, Op
from anabranch.graph.paths import plain_path, why_not_path
from anabranch.job import graph_of
from anabranch.operators.sinks import WriteFiles, WriteSink
from anabranch.operators.sources import ReadFiles, ReadSource

EXAMPLES = """\
examples:
  anabranch doctor              this machine: Python, Java, Spark and its workers
  anabranch doctor vwap.py      and the files, brokers and databases of a program
  anabranch doctor --quick      without starting Spark
"""
OLDEST_PYTHON = (3, 11)
_SPARE_BYTES = 1 << 30
_START_S = 180
_REACH_S = 3
_TRIAL = """\
import anabranch as ab
out = ab.from_iterable([1, 2, 3]).map(lambda n: n * n).to_list()
ab.run(out)
assert out.items == [1, 4, 9], out.items
"""
_EXTRAS = {  # module -> extra
    "fastavro": "avro",
    "grpc_status": "connect",
    "deltalake": "delta",
    "fsspec": "fsspec",
    "pyiceberg": "iceberg",
    "confluent_kafka": "kafka",
    "opentelemetry": "otlp",
    "psycopg": "postgres",
    "obstore": "stores",
}


@dataclass(frozen=True)
class Check:
    """One check; `fix` is a command or a sentence if it failed."""

    what: str
    found: str
    fix: str | None = None
    needed: bool = True  # False: only some programs need it


NO_SPARK = Check(
    "Spark",
    "PySpark is not installed; on='local' works without it",
    "pip install 'anabranch[spark]'",
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "doctor",
        help="check this machine, and say how to fix problems",
        description="Check Python, Java, Spark and its workers, and the files, brokers "
        "and databases of a program, and say how to fix problems.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "target", nargs="?", metavar="FILE[:NAME]", help="also check this program"
    )
    parser.add_argument(
        "--quick", action="store_true", help="do not start Spark to try it"
    )
    parser.set_defaults(command=doctor)


def doctor(arguments: argparse.Namespace) -> int:
    """Print the results; return 1 if something required is missing."""
    console = words()
    ill = 0
    for check in look(arguments.target, quick=arguments.quick):
        if check.fix is None:
            mark = ("ok      ", "green")
        elif check.needed:
            mark, ill = ("missing ", "bold red"), ill + 1
        else:
            mark = ("optional", "yellow")
        console.print(Text.assemble(mark, f" {check.what}: {check.found}"))
        if check.fix is not None:
            console.print(Text(f"         {check.fix}"))
    console.print("everything is in place" if not ill else f"{ill} to mend")
    return 1 if ill else 0


def look(target: str | None, *, quick: bool) -> Iterator[Check]:
    """Yield the checks of this machine, and of a program's inputs and outputs."""
    yield look_at_python()
    spark = importlib.util.find_spec("pyspark") is not None
    java = look_at_java() if spark else NO_SPARK
    yield java
    if spark:
        yield look_at_worker_python()
    yield look_at_disk()
    yield from look_at_extras(_EXTRAS)
    if target is not None:
        yield from look_at_program(graph_of(load_sinks(target)))
    if not quick and java.fix is None:
        yield look_at_spark()


def look_at_python() -> Check:
    """Check the version of Python.

    >>> look_at_python().fix is None
    True
    """
    found = f"{sys.version_info.major}.{sys.version_info.minor} ({sys.executable})"
    if sys.version_info < OLDEST_PYTHON:
        return Check("Python", found, "install Python 3.11 or later")
    return Check("Python", found)


def look_at_java() -> Check:
    """Check for a Java that Spark can run on."""
    done = subprocess.run(
        [sys.executable, "-m", "anabranch.engines.spark.session"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        home = os.environ.get("JAVA_HOME")
        return Check("Java", home or shutil.which("java") or "found")
    what, _, fix = done.stderr.strip().rpartition("; ")
    return Check("Java", what or "not usable", fix)


def look_at_worker_python() -> Check:
    """Check the Python of Spark's workers."""
    named = os.environ.get("PYSPARK_PYTHON")
    spark = f"PySpark {metadata.version('pyspark')}"
    if named is None or shutil.which(named) == sys.executable:
        return Check("Spark's workers", f"{spark}, this Python")
    asked = "import sys, anabranch; print(*sys.version_info[:2])"
    try:
        done = subprocess.run(
            [named, "-c", asked], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        found = f"PYSPARK_PYTHON={named} has no anabranch"
        return Check(
            "Spark's workers", found, f"export PYSPARK_PYTHON={sys.executable}"
        )
    if done.stdout.split() != [str(n) for n in sys.version_info[:2]]:
        found = f"PYSPARK_PYTHON={named} is another version of Python"
        return Check(
            "Spark's workers", found, f"export PYSPARK_PYTHON={sys.executable}"
        )
    return Check("Spark's workers", f"{spark}, {named}")


def look_at_disk() -> Check:
    """Check the disk space for shuffles and states."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    found = f"{free / 2**30:.1f} GiB free in {folder}"
    few = free < _SPARE_BYTES
    return Check(
        "disk", found, "set TMPDIR to a folder with more room" if few else None
    )


def look_at_extras(extras: Mapping[str, str]) -> Iterator[Check]:
    """Check for the packages that only some programs need: module -> extra.

    >>> [check] = look_at_extras({"json": "json", "no_such_module": "lake"})
    >>> check.found, check.fix
    ('json; not installed: lake', "where a program needs one: pip install 'anabranch[lake]', and so on")
    """
    there = [e for module, e in extras.items() if importlib.util.find_spec(module)]
    missing = [extra for extra in extras.values() if extra not in there]
    found = ", ".join(there) or "none"
    if not missing:
        yield Check("extras", found)
        return
    yield Check(
        "extras",
        f"{found}; not installed: {', '.join(missing)}",
        f"where a program needs one: pip install 'anabranch[{missing[0]}]', and so on",
        needed=False,
    )


def look_at_program(graph: Graph) -> Iterator[Check]:
    """Check the files, brokers and servers that a program names."""
    for op in graph:
        match op.kind:
            case ReadFiles(path=path):
                yield look_at_input(op, path)
            case WriteFiles(path=path):
                yield look_at_output(op, path)
            case ReadSource(connector) | WriteSink(connector):
                yield from look_at_connector(op, connector)


def look_at_connector(op: Op, connector: Any) -> Iterator[Check]:
    """Try the servers that a source or sink names."""
    addresses = (
        list(connector.addresses()) if isinstance(connector, Source | Sink) else []
    )
    if not addresses:
        yield Check(_title(op), "is opened when the program runs")
    for host, port in addresses:
        yield look_at_server(op, host, port)


def look_at_input(op: Op, path: str) -> Check:
    """Check that there is something to read."""
    plain = plain_path(path)
    if why_not_path(plain) is not None:
        return Check(_title(op), f"reads {path}; not checked")
    there = any(Path(plain).parent.glob(Path(plain).name)) or Path(plain).exists()
    fix = None if there else f"put the input there, or correct the path at {op.site}"
    return Check(_title(op), f"{'reads' if there else 'there is no'} {path}", fix)


def look_at_output(op: Op, path: str) -> Check:
    """Check that the folder of an output is writable."""
    plain = plain_path(path)
    if why_not_path(plain) is not None:
        return Check(_title(op), f"writes {path}; not checked")
    folder = Path(plain).absolute().parent
    while not folder.exists():
        folder = folder.parent
    well = os.access(folder, os.W_OK)
    fix = None if well else f"chmod u+w {folder}, or correct the path at {op.site}"
    return Check(
        _title(op), f"writes {path}" if well else f"cannot write {folder}", fix
    )


def look_at_server(op: Op, host: str, port: int) -> Check:
    """Check that a server answers at an address."""
    try:
        with socket.create_connection((host, port), timeout=_REACH_S):
            return Check(_title(op), f"{host}:{port} answers")
    except OSError as error:
        found = f"{host}:{port} does not answer ({error.strerror or error})"
        return Check(
            _title(op), found, f"start it, or correct the address at {op.site}"
        )


def _title(op: Op) -> str:
    return f"{op.kind.label} {op.name!r}" if op.name != op.kind.label else op.name


def look_at_spark() -> Check:
    """Start Spark and run a small program."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _TRIAL],
            capture_output=True,
            text=True,
            check=False,
            timeout=_START_S,
        )
    except subprocess.TimeoutExpired:
        found = f"a small program did not end within {_START_S} s"
        return Check("Spark", found, "look at the load and the memory of this machine")
    if done.returncode == 0:
        return Check("Spark", "ran a small program")
    last = (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
    return Check("Spark", "a small program failed", last)
