"""`to_stream`: an ordinary loop as a stream program."""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from anabranch.graph.declarations import declare
from anabranch.graph.site import Site
from anabranch.language.drafts import Result, build_graph
from anabranch.language.loop.read_loop import (
    LoopPlace,
    MarkedLoop,
    Stage,
    names_of,
    read_loop,
)
from anabranch.language.loop.rewrite import (
    Parts,
    parts_maker,
    type_of_items,
    type_of_outputs,
)
from anabranch.language.loop.variables import (
    Wires,
    Wiring,
    why_given_again,
    why_shared,
    wire,
)
from anabranch.language.stream import Stream, source
from anabranch.operators.sources import FromIterable, Generate
from anabranch.python.objects import is_scalar
from anabranch.python.source import file_of, node_of, path_to_show

Made = TypeVar("Made", Stream, Result)


class Loop:
    """A function with a marked loop: call it, or get its `stream`.

    >>> import anabranch as ab
    >>> @ab.to_stream
    ... def double(numbers, found):
    ...     for n in numbers:
    ...         with ab.stage():
    ...             n = 2 * n
    ...         with ab.stage():
    ...             found.append(n)
    >>> found = []
    >>> _ = ab.run(double.stream([1, 2], found), on="local")
    >>> found
    [2, 4]
    """

    def __init__(self, function: types.FunctionType, owner: Any = None) -> None:
        functools.update_wrapper(self, function)
        self.__name__ = function.__name__
        self._function = function
        self._first = () if owner is None else (owner,)  # of a method

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run the loop as written."""
        return self._function(*self._first, *args, **keywords)

    def __get__(self, owner: Any, kind: Any = None) -> Loop:
        """Return the loop as a method of an object."""
        return self if owner is None else Loop(self._function, owner)

    def stream(self, *args: Any, **keywords: Any) -> Result:
        """Return the loop as a program, with these arguments; nothing runs yet.

        The code before the loop does run: it is not part of the stream.
        """
        loop, wiring, make = self._read
        parts = make(*self._first, *args, **keywords)
        names = names_of(self._function)
        whole = _Build(loop, wiring, replace(parts, items=None), names)  # all its code
        graph = build_graph([whole.sink()])
        refusal = why_given_again(graph, whole.operators[0]) or why_shared(
            graph, whole.operators
        )
        if refusal is not None:
            raise refusal
        return _Build(loop, wiring, parts, names).sink()

    @functools.cached_property
    def _read(self) -> tuple[MarkedLoop, Wiring, Callable[..., Parts]]:
        code = self._function.__code__
        place = LoopPlace(path_to_show(code.co_filename), self._function.__name__)
        node, parsed = node_of(code), file_of(code.co_filename)
        if parsed is None or not isinstance(node, ast.FunctionDef):
            reason = "its source is not available, so its stages cannot be found"
            fix = "put it into a file, as a plain function"
            raise place.refuse(code.co_firstlineno, reason, fix)
        loop = read_loop(node, place, names_of(self._function))
        wiring = wire(loop)
        return loop, wiring, parts_maker(self._function, parsed, loop, wiring)


def to_stream(function: Callable[..., Any]) -> Loop:
    """Turn a function with a loop of marked stages into a stream program.

    The function still runs as written when it is called. Its `stream(...)` takes the
    same arguments and returns a sink for `ab.run`: the code before the first stage is
    the source, each `with ab.stage():` an operator, and the last stage, which passes
    nothing on, the sink (one that names outputs is collected, as by `to_list`). Stages
    that are proved to be stateless are replicated; a variable that only one stage
    carries between iterations is its state. Code that cannot be turned into stages is
    refused with its line and the reason.

    >>> import anabranch as ab
    >>> @ab.to_stream
    ... def running(numbers):
    ...     total = 0
    ...     for n in numbers:
    ...         with ab.stage():
    ...             n = n * n
    ...         with ab.stage(outputs="total"):
    ...             total += n
    >>> totals = running.stream([1, 2, 3])
    >>> _ = ab.run(totals, on="sequential")
    >>> totals.items
    [1, 5, 14]
    """
    if not isinstance(function, types.FunctionType):
        msg = f"to_stream takes a function; got {type(function).__name__}"
        raise TypeError(msg)
    return Loop(function)


class _Build:
    """Assembles the parts of a loop as a stream."""

    def __init__(
        self, loop: MarkedLoop, wiring: Wiring, parts: Parts, names: dict[str, Any]
    ) -> None:
        self.loop = loop
        self.wiring = wiring
        self.parts = parts
        self.names = names
        self.operators: list[str] = []

    def sink(self) -> Result:
        stream = self._source()
        for number, stage in enumerate(self.loop.stages):
            wires = self.wiring.stages[number]
            made = self._stage(stream, number, stage, wires)
            if isinstance(made, Result):
                return made
            stream = made
        name = self._name("", "outputs")
        collected = bool(self.wiring.stages[-1].outputs)
        sink = stream.to_list(name=name)
        if not collected:
            sink = stream.for_each(_nothing, name=name)
        return self._at(sink, self.loop.stages[-1])

    def _source(self) -> Stream:
        items, name = self.parts.items, self._name("", "source")
        kind: Generate | FromIterable = Generate(self.parts.source)
        if isinstance(items, list | tuple | range):
            kind = FromIterable(items)
        type_ = type_of_items(self.loop, self.wiring.head_outputs, self.names)
        stream = source(kind, type_, name)
        stream.draft.site = Site(self.loop.place.file, self.loop.loop.lineno)
        self.operators.append(name)
        return stream

    def _stage(
        self, stream: Stream, number: int, stage: Stage, wires: Wires
    ) -> Stream | Result:
        function = self.parts.stages[number]
        name = self._name(stage.name, str(number + 1))
        self.operators.append(name)
        if stage.replicate is not None:
            declare(state="stateless" if stage.replicate else "global")(function)
        type_ = type_of_outputs(stage, wires.outputs, self.names)
        if wires.kept:
            self._refuse_replicas_with_state(stage, wires)
            first = self.parts.kept[number]
            self._refuse_changing_state(stage, wires, first)
            made = stream.scan(function, first, type=type_, name=name)
            return self._at(made, stage)
        if number + 1 == len(self.loop.stages) and not wires.outputs:
            return self._at(stream.for_each(function, name=name), stage)
        return self._at(stream.map(function, type=type_, name=name), stage)

    def _name(self, given: str | None, default: str) -> str:
        return given or f"{self.loop.node.name}_{default}"

    def _at(self, made: Made, stage: Stage) -> Made:
        made.draft.site = Site(self.loop.place.file, stage.line)
        return made

    def _refuse_replicas_with_state(self, stage: Stage, wires: Wires) -> None:
        if stage.replicate:
            reason = f"the stage keeps {', '.join(wires.kept)} from turn to turn"
            fix = "leave out replicate=True"
            raise self.loop.place.refuse(stage.line, reason, fix)

    def _refuse_changing_state(
        self, stage: Stage, wires: Wires, first: tuple[Any, ...]
    ) -> None:
        """Refuse an initial value that the stage could change for others too."""
        for name, value in zip(wires.kept, first, strict=True):
            if not _cannot_change(value):
                reason = (
                    f"the stage keeps {name} from turn to turn, which begins as a "
                    f"{type(value).__name__} that others may see change"
                )
                fix = (
                    "begin with a value that cannot change, or change the object by "
                    "its methods without assigning the variable"
                )
                raise self.loop.place.refuse(stage.line, reason, fix)


def _cannot_change(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_cannot_change, value))
    return is_scalar(value)


def _nothing(item: Any) -> None:
    """Do nothing with an item."""
