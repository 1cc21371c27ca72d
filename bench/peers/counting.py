"""How many lines a user writes for a job: its function and all that it leads to.

What all peers share (the functions on one trade, in bench/harness/trades.py) does not count,
nor do imports, blank lines, comments and docstrings.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

PLAIN = Path(__file__).resolve().parents[1] / "harness" / "trades.py"
HARNESS = re.compile(r"\btalk\.")  # lines for the bench, not for the user


def lines_of(program: Path, job: str) -> int:
    """Return the lines of the definitions that a job needs."""
    text = program.read_text(encoding="utf-8")
    tree = ast.parse(text)
    defined = {name: node for node in tree.body for name in _names(node)}
    if job not in defined:  # a loop, which all share that have none of their own
        own = _count(text, defined, ["run"])
        return own + (_count_plain(job) if own else 0)
    return _count(text, defined, [job])


def _count_plain(job: str) -> int:
    """Return the lines of a job's plain loop."""
    text = PLAIN.read_text(encoding="utf-8")
    defined = {name: node for node in ast.parse(text).body for name in _names(node)}
    loop = f"_plain_{job}"
    return _count(text, {loop: defined[loop]}, [loop])


def _count(text: str, defined: dict[str, ast.stmt], wanted: list[str]) -> int:
    needed: dict[str, ast.stmt] = {}
    while wanted:
        name = wanted.pop()
        if name in defined and name not in needed:
            needed[name] = defined[name]
            wanted += [
                inner.id
                for inner in ast.walk(defined[name])
                if isinstance(inner, ast.Name)
            ]
    lines = text.splitlines()
    return len(
        {
            number
            for node in needed.values()
            for number in range(node.lineno, (node.end_lineno or 0) + 1)
            if _is_code(lines[number - 1]) and number not in _docstring(node)
        }
    )


def _names(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [one.id for one in targets if isinstance(one, ast.Name)]
        case _:
            return []


def _docstring(node: ast.stmt) -> set[int]:
    return {
        number
        for inner in ast.walk(node)
        if isinstance(inner, ast.Expr)
        and isinstance(inner.value, ast.Constant)
        and isinstance(inner.value.value, str)
        for number in range(inner.lineno, (inner.end_lineno or 0) + 1)
    }


def _is_code(line: str) -> bool:
    bare = line.strip()
    return bool(bare) and not bare.startswith("#") and not HARNESS.search(bare)
