"""Who may import whom. Downwards only.

Everyone may import `errors`, `logs` and `private`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "anabranch"

ENGINE_SIDE = {"graph", "operators", "plan", "metrics", "runtime", "connectors"}
ALLOWED = {
    "errors": set(),
    "logs": set(),
    "private": set(),
    "signals": {"runtime"},
    "graph": set(),
    "operators": {"graph"},
    "metrics": set(),
    "plan": {"graph", "operators"},
    "python": {"graph", "operators"},
    "language": {"graph", "operators", "python", "connectors"},
    "compiler": {"graph", "operators", "python", "plan"},
    "runtime": {"graph", "operators", "plan", "metrics"},
    "connectors": {"graph", "operators", "runtime"},
    "control": {"plan", "metrics", "operators"},
    "epochs": ENGINE_SIDE,
    "engines": ENGINE_SIDE | {"epochs"},
    "dashboard": {"metrics"},
    "export": {"metrics", "connectors"},
    "run_options": {
        *("connectors", "control", "engines", "export", "graph", "metrics", "runtime")
    },
}
ALL = {*ALLOWED, "job"}
ALLOWED["job"] = ALL
ALLOWED["testing"] = ALL
ALLOWED["notebook"] = ALL
ALLOWED["cli"] = ALL | {"testing"}
ALLOWED["__main__"] = set()
ALLOWED["__init__"] = ALL - {"dashboard"} | {"testing", "notebook"}

# PySpark takes a second to import; only who runs on Spark pays for it. Files of
# connectors are loaded by `load_connector`, when a program first names their system;
# public names that run a program by `__getattr__` of the package, when they are used.
# Numba takes a third of one, and a Python process more memory than all of ours.
BY_NAME = {
    ("job.py", "anabranch.engines.sequential"),
    ("job.py", "anabranch.engines.local.run"),
    ("job.py", "anabranch.engines.spark.engine"),
    ("__init__.py", "anabranch.notebook"),
    ("__init__.py", "importlib.metadata"),
    ("runtime/compiled/build.py", "numba"),
}
SPARK_ONLY = "engines/spark"


class Import(NamedTuple):
    """An import: what, in which file and line, and whether it waits to be executed."""

    module: str
    file: str
    line: int
    deferred: bool
    by_name: bool = False

    def __str__(self):
        return f"{self.file}:{self.line} imports {self.module}"


def walk(tree: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """Yield each node, and whether it waits until a function is called."""
    waiting = [(tree, False)]
    while waiting:
        node, deferred = waiting.pop()
        yield node, deferred
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            deferred = True
        waiting.extend((child, deferred) for child in ast.iter_child_nodes(node))


def imports_of(source: str, file: str) -> Iterator[Import]:
    for node, deferred in walk(ast.parse(source)):
        found = []
        match node:
            case ast.Import(names=names):
                found = [alias.name for alias in names]
            case ast.ImportFrom(module="anabranch", level=0, names=names):
                found = [f"anabranch.{alias.name}" for alias in names]
            case ast.ImportFrom(module=module, level=level):
                found = ["." * level + (module or "")]
            case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]):
                if ast.unparse(func).endswith(("import_module", "__import__")):
                    yield Import(name, file, node.lineno, deferred, by_name=True)
        for module in found:
            yield Import(module, file, node.lineno, deferred)


@cache
def all_imports() -> list[Import]:
    return [
        one
        for path in sorted(PACKAGE.rglob("*.py"))
        for one in imports_of(
            path.read_text(encoding="utf-8"), path.relative_to(PACKAGE).as_posix()
        )
    ]


def layer_of(file: str) -> str:
    return file.partition("/")[0].removesuffix(".py")


def why_not(one: Import) -> str | None:
    """Return which rule an import breaks, or None."""
    if one.by_name:
        return None if (one.file, one.module) in BY_NAME else "imports by name"
    if one.deferred:
        return "a deferred import: the type lives in the wrong folder"
    if one.module.startswith("."):
        return "a relative import: write the module out"
    package, _, rest = one.module.partition(".")
    match package:
        case "pyspark" | "py4j":
            inside = one.file.startswith(SPARK_ONLY + "/")
            return None if inside else f"Spark belongs to {SPARK_ONLY}"
        case "anabranch":
            return why_not_from(layer_of(one.file), rest.partition(".")[0])
        case _:
            return None


def why_not_from(layer: str, imported: str) -> str | None:
    """Return why a layer may not import another, or None."""
    if imported in {layer, "errors", "logs", "private"} | ALLOWED[layer]:
        return None
    return f"{layer} may import {', '.join(sorted(ALLOWED[layer])) or 'nothing'}"


def test_imports_point_downwards():
    broken = [f"{one}: {why}" for one in all_imports() if (why := why_not(one))]

    assert [] == broken


def test_every_folder_has_its_place_in_the_table():
    layers = {
        path.stem
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }

    assert set() == layers - set(ALLOWED)


def test_the_exception_by_name_is_still_needed():
    by_name = {(one.file, one.module) for one in all_imports() if one.by_name}

    assert by_name == BY_NAME


BROKEN = {
    "upwards": ("graph/x.py", "import anabranch.runtime.state"),
    "upwards by from": ("graph/x.py", "from anabranch import job"),
    "across": ("compiler/x.py", "from anabranch.runtime.state import State"),
    "deferred": ("job.py", "def f():\n    from anabranch.graph import graph"),
    "by name": ("cli/x.py", "importlib.import_module('anabranch.job')"),
    "another name": ("job.py", "importlib.import_module('anabranch.cli.main')"),
    "relative": ("graph/x.py", "from . import stream"),
    "spark elsewhere": ("engines/local/x.py", "import pyspark.sql"),
    "the whole package": ("engines/x.py", "import anabranch as ab"),
}


@pytest.mark.parametrize(("file", "source"), BROKEN.values(), ids=BROKEN)
def test_a_broken_rule_is_found(file, source):
    assert all(why_not(one) is not None for one in imports_of(source, file))
    assert list(imports_of(source, file))


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("runtime/x.py", "from anabranch.graph.graph import Graph\nimport json"),
        ("engines/spark/x.py", "from pyspark.sql import SparkSession"),
        ("graph/x.py", "from anabranch.errors import GraphError"),
    ],
)
def test_a_kept_rule_is_not_reported(file, source):
    assert [None] * source.count("import") == [
        why_not(one) for one in imports_of(source, file)
    ]
