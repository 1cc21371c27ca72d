"""Splits a function with a marked loop into its parts: before, head, and stages.

A part that cannot be a stage is refused here if the code's structure shows it;
`variables` refuses the rest.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeAlias

from anabranch.errors import LoopError
from anabranch.python.source import parameter_names


class stage:  # noqa: N801 - reads as the words of a `with`
    """Mark a stage of a loop that `ab.to_stream` turns into a stream.

    `inputs` and `outputs` name the variables that the stage takes and gives, as one
    name or a tuple of names; if left out they are derived from the code.
    `replicate=True` states that iterations of the stage are independent (this is
    trusted), `replicate=False` keeps it sequential; else analysis decides.

    >>> import anabranch as ab
    >>> @ab.to_stream
    ... def squares(numbers, found):
    ...     for n in numbers:
    ...         with ab.stage(inputs="n", outputs="n"):
    ...             n = n * n
    ...         with ab.stage(inputs="n"):
    ...             found.append(n)
    >>> found = []
    >>> squares([1, 2], found)
    >>> found
    [1, 4]
    """

    def __init__(
        self,
        *,
        inputs: str | tuple[str, ...] | None = None,
        outputs: str | tuple[str, ...] | None = None,
        replicate: bool | None = None,
        name: str | None = None,
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.replicate = replicate
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass


LoopNode: TypeAlias = ast.For | ast.While
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True)
class LoopPlace:
    """A function in a file; refusals point into it."""

    file: str
    function: str

    def refuse(self, line: int, reason: str, fix: str) -> LoopError:
        """Return the error for code that cannot be turned into stages, and why."""
        return LoopError(f"{self.file}:{line}: {self.function}: {reason}; {fix}")


@dataclass(frozen=True)
class Stage:
    """A marked block, and the arguments of its mark; None where not given."""

    line: int
    body: tuple[ast.stmt, ...]
    inputs: tuple[str, ...] | None
    outputs: tuple[str, ...] | None
    replicate: bool | None
    name: str | None


@dataclass(frozen=True)
class MarkedLoop:
    """The parts of a function: `before` the loop, the `head` of its body, the
    stages.
    """

    place: LoopPlace
    node: ast.FunctionDef
    before: tuple[ast.stmt, ...]
    loop: LoopNode
    head: tuple[ast.stmt, ...]
    stages: tuple[Stage, ...]

    @property
    def parameters(self) -> list[str]:
        """The parameters of the function."""
        return parameter_names(self.node.args)


def read_loop(
    node: ast.FunctionDef, place: LoopPlace, names: Mapping[str, Any]
) -> MarkedLoop:
    """Return the parts of a function; `names` are its outer names."""
    _refuse_scopes(node, place)
    at = [n for n, part in enumerate(node.body) if _is_loop_of_stages(part, names)]
    marks = [part for part in ast.walk(node) if _marks(part, names)]
    if not marks:
        reason = "no stage is marked"
        fix = "put parts of the body of its loop into blocks `with ab.stage():`"
        raise place.refuse(node.lineno, reason, fix)
    if len(at) != 1:
        reason = "stages must stand directly in the body of one loop of the function"
        fix = "take the loop out of what surrounds it, and leave one such loop"
        raise place.refuse(_line(marks[0]), reason, fix)
    loop = node.body[at[0]]
    assert isinstance(loop, ast.For | ast.While)  # noqa: S101 - as was asked above
    _refuse_rest(node.body[at[0] + 1 :], loop, place)
    first = next(n for n, part in enumerate(loop.body) if _marks(part, names))
    head, behind = loop.body[:first], loop.body[first:]
    stages = tuple(_stage(part, names, place) for part in behind)
    strays = [one for one in marks if all(one is not part for part in behind)]
    if strays:
        reason = "a stage must stand directly in the body of the loop"
        fix = "take it out of what surrounds it"
        raise place.refuse(_line(strays[0]), reason, fix)
    return MarkedLoop(place, node, tuple(node.body[: at[0]]), loop, tuple(head), stages)


def names_of(function: types.FunctionType) -> dict[str, Any]:
    """Return the outer names of a function, and their values."""
    found = dict(function.__globals__)
    for name, cell in zip(
        function.__code__.co_freevars, function.__closure__ or (), strict=True
    ):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def value_of(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Return the value of a name, or of an attribute of a module; else None."""
    match node:
        case ast.Name(id=name):
            return names.get(name)
        case ast.Attribute(value=value, attr=attr):
            owner = value_of(value, names)
            if isinstance(owner, types.ModuleType):
                return getattr(owner, attr, None)
    return None


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def _is_loop_of_stages(node: ast.stmt, names: Mapping[str, Any]) -> bool:
    return isinstance(node, ast.For | ast.While) and any(
        _marks(part, names) for part in node.body
    )


def _marks(node: ast.AST, names: Mapping[str, Any]) -> ast.Call | None:
    """Return the mark of a block that is a stage."""
    if isinstance(node, ast.With | ast.AsyncWith):
        for item in node.items:
            call = item.context_expr
            if isinstance(call, ast.Call) and value_of(call.func, names) is stage:
                return call
    return None


def _refuse_scopes(node: ast.FunctionDef, place: LoopPlace) -> None:
    for part in ast.walk(node):
        match part:
            case ast.Global(names=[name, *_]) | ast.Nonlocal(names=[name, *_]):
                reason = f"{name} belongs to code outside the function"
                fix = "leave out the declaration, or keep it in an object of its own"
            case ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                reason, fix = (
                    "asynchronous code cannot be a stage",
                    "make it a plain loop",
                )
            case _:
                continue
        raise place.refuse(_line(part), reason, fix)
    for part in _own_parts(node.body):
        if isinstance(part, ast.Yield | ast.YieldFrom):
            reason = "a function that yields has no stages"
            raise place.refuse(_line(part), reason, "give its items to a last stage")


def _own_parts(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes of code, without those of nested functions and classes."""
    waiting: list[ast.AST] = [*body]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def _refuse_rest(after: list[ast.stmt], loop: LoopNode, place: LoopPlace) -> None:
    if loop.orelse:
        reason = "the `else` of the loop would have to run when the stream has ended"
        raise place.refuse(_line(loop.orelse[0]), reason, "do that after `ab.run`")
    for part in after:
        match part:
            case ast.Pass() | ast.Return(value=None | ast.Constant(value=None)):
                continue
        reason = "code behind the loop would have to run when the stream has ended"
        raise place.refuse(_line(part), reason, "do that after `ab.run`")


def _stage(node: ast.stmt, names: Mapping[str, Any], place: LoopPlace) -> Stage:
    mark = _marks(node, names)
    if mark is None:
        reason = "code between stages belongs to none of them"
        fix = "move it into the stage before or behind it"
        raise place.refuse(_line(node), reason, fix)
    assert isinstance(node, ast.With)  # noqa: S101 - others have no marks here
    if len(node.items) > 1 or node.items[0].optional_vars is not None:
        reason = "the mark of a stage must stand alone"
        raise place.refuse(node.lineno, reason, "write `with ab.stage(...):`")
    _refuse_jumps(node.body, place)
    said = _read_arguments(mark, place)
    return Stage(
        node.lineno,
        tuple(node.body),
        _as_names(said.get("inputs"), mark, place),
        _as_names(said.get("outputs"), mark, place),
        said.get("replicate"),
        said.get("name"),
    )


def _read_arguments(mark: ast.Call, place: LoopPlace) -> dict[str, Any]:
    """Return the arguments of a mark, which must be literals."""
    said: dict[str, Any] = {}
    for word in mark.keywords:
        try:
            said[str(word.arg)] = ast.literal_eval(word.value)
        except ValueError:
            reason = f"{word.arg or '**'} of a stage must be written out"
            fix = f"got {ast.unparse(word.value)}; write names as text"
            raise place.refuse(mark.lineno, reason, fix) from None
    try:
        stage(*mark.args, **said)
    except TypeError as error:
        fix = "it takes inputs=, outputs=, replicate= and name="
        raise place.refuse(mark.lineno, str(error), fix) from None
    return said


def _as_names(said: Any, mark: ast.Call, place: LoopPlace) -> tuple[str, ...] | None:
    found = (said,) if isinstance(said, str) else said
    if found is None:
        return None
    if not isinstance(found, tuple | list) or not all(
        isinstance(name, str) and name.isidentifier() for name in found
    ):
        reason = f"inputs and outputs of a stage are names of variables; got {said!r}"
        raise place.refuse(mark.lineno, reason, 'write "frame" or ("frame", "number")')
    return tuple(found)


def _refuse_jumps(body: list[ast.stmt], place: LoopPlace) -> None:
    """Refuse jumps out of a stage."""
    for part in _own_parts(body):
        if isinstance(part, ast.Return):
            reason = "a stage cannot end the loop: it does not know what runs beside it"
            fix = "return in the code before the first stage"
            raise place.refuse(part.lineno, reason, fix)
    for jump in _jumps(body):
        word = "break" if isinstance(jump, ast.Break) else "continue"
        reason = (
            f"a stage cannot `{word}` the loop: it does not know what runs beside it"
        )
        fix = f"{word} in the code before the first stage, or use `if` in the stages"
        raise place.refuse(_line(jump), reason, fix)


def _jumps(code: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the jumps of the loop around some code."""
    for part in code:
        match part:
            case ast.Break() | ast.Continue():
                yield part
            case ast.For(orelse=orelse) | ast.While(orelse=orelse):
                yield from _jumps(orelse)  # in its body they are its own
            case _ if not isinstance(part, _SCOPES):
                for below in ("body", "orelse", "finalbody"):
                    yield from _jumps(getattr(part, below, []))
                for case in (
                    *getattr(part, "handlers", []),
                    *getattr(part, "cases", []),
                ):
                    yield from _jumps(case.body)
