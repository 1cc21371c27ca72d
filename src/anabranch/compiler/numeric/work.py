"""What is left to do while a function is traced: statements, and rounds of loops.

Work is a list that shares its end, so that two branches can go on with the same.
"""

from __future__ import annotations

import ast
from typing import Any, NamedTuple, TypeAlias

from anabranch.compiler.numeric.values import RefusedError


class Round(NamedTuple):
    """One round of a loop: what its target is, and what it does."""

    target: ast.expr
    value: Any
    body: list[ast.stmt]


class LoopEnd(NamedTuple):
    """Where a loop ends, and a `break` goes on."""


Step: TypeAlias = ast.stmt | Round | LoopEnd
Work: TypeAlias = tuple[Step, Any] | None  # a step, and the work behind it


def before(steps: list[ast.stmt], work: Work) -> Work:
    for step in reversed(steps):
        work = (step, work)
    return work


def behind(work: Work, kinds: Any, *, keep: bool = False) -> Work:
    while work is not None:
        step, rest = work
        if isinstance(step, kinds):
            return work if keep else rest
        work = rest
    return None


def refuse_lists(work: Work) -> None:
    """Refuse a branch if rounds to come have a list that it might change."""
    while work is not None:
        step, work = work
        if isinstance(step, Round) and _has_list(step.value):
            msg = "goes through lists of lists with a condition inside"
            raise RefusedError(msg)


def goes_elsewhere(body: list[ast.stmt]) -> bool:
    """Tell whether a round may do more than go on to the next one."""
    return leaves(body) or any(
        isinstance(each, ast.Yield) for step in body for each in ast.walk(step)
    )


def _has_list(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_list, value))
    return isinstance(value, list)


def leaves(steps: list[ast.stmt]) -> bool:
    """Tell whether statements may go elsewhere than to what follows them."""
    kinds = (ast.Return, ast.Raise, ast.Break, ast.Continue)
    return any(isinstance(each, kinds) for step in steps for each in ast.walk(step))
