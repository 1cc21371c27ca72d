"""Runs scripts as `python script.py` would, without annotations, on a session of theirs.

    python as_main.py FOLDER SCRIPT...

All of them share one process and one Spark session, which the first one starts as a
user would. A script that defines `program` is run on the sequential engine and on
Spark, and both must give the same; others run as they stand.
"""

from __future__ import annotations

import ast
import os
import runpy
import sys
from pathlib import Path

import anabranch as ab
from anabranch.operators.sinks import ToList

FOOTER = "\nimport as_main\nas_main.compare(program)\n"


class WithoutAnnotations(ast.NodeTransformer):
    """Takes annotations off functions; those of classes make the tuple types."""

    def visit_FunctionDef(self, node):
        node.returns = None
        arguments = node.args
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            one.annotation = None
        node.body = [self._bare(statement) for statement in node.body]
        return self.generic_visit(node)

    @staticmethod
    def _bare(statement):
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            made = ast.Assign([statement.target], statement.value)
            return ast.copy_location(made, statement)
        return statement


def strip_annotations(text: str) -> str:
    """Return the text of a script without the annotations of its functions."""
    return ast.unparse(
        ast.fix_missing_locations(WithoutAnnotations().visit(ast.parse(text)))
    )


def compare(program):
    """Run the sinks of a program on both engines; they must give the same."""
    sequential, spark = (_results(program, on) for on in ("sequential", "spark"))
    assert any(sequential["delivered"].values()), "it gives nothing"
    for part, expected in sequential.items():
        assert expected == spark[part], part


def _results(program, on):
    folder = Path(on) / str(len(list(Path(on).glob("*"))))
    folder.mkdir(parents=True)
    before = Path.cwd()
    os.chdir(folder)
    try:
        made = program()
        sinks = made if isinstance(made, list | tuple) else (made,)
        job = ab.run(*sinks, on=on, degree=2 if on == "spark" else None)
        lists = [s.items for s in sinks if isinstance(s.draft.kind, ToList)]
        return {
            "delivered": job.metrics().delivered,
            "items": repr(lists),
            "types": [[_type_of(item) for item in items] for items in lists],
            "files": _lines_by_output(sorted(Path().rglob("*.csv"))),
        }
    finally:
        os.chdir(before)


def _type_of(item):
    return f"{type(item)} {id(type(item))}"  # the same class object, not its copy


def _lines_by_output(paths):
    """Return the lines of each output, which may have several parts, each with a head."""
    found = {}
    for path in paths:
        name = str(path.parent if path.name.startswith("part-") else path)
        head, *lines = path.read_text().splitlines()
        found.setdefault(name, [head]).extend(lines)
    return found


if __name__ == "__main__":
    folder, *scripts = map(Path, sys.argv[1:])
    sys.path.insert(0, str(Path(__file__).parent))
    for script in scripts:
        sys.path.insert(0, str(script.parent))
        text = strip_annotations(script.read_text())
        has_program = "def program(" in text
        copy = folder / script.name
        copy.write_text(text + FOOTER if has_program else text)
        sys.argv = [str(copy), str(folder / "trades"), str(folder / "results")]
        os.chdir(folder)
        runpy.run_path(str(copy), run_name="__main__")
        sys.stdout.write(f"ran {script.stem}\n")
