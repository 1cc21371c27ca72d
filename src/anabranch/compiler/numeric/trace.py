"""The lines of a kernel while it is being traced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from anabranch.compiler.numeric.values import (
    LARGEST,
    Kind,
    Known,
    RefusedError,
    Symbol,
)

LONGEST = 480  # lines: a kernel takes about 10 ms a line to compile
MOST_STEPS = 20_000
UNROLLED = 260  # a loop that would become longer than this stays a loop


class Trace:
    """Collects the lines of a kernel, each with one number or one check.

    Equal expressions become one line. A check that fails makes the whole batch run in
    Python instead, which then raises what it raises.
    """

    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []  # depth, text
        self.constants: list[float] = []
        self.scalars: list[int] = []  # constants that are used by themselves
        self.kinds: dict[str, Kind] = {}  # of the numbers that have a line
        self.loads: dict[str, tuple[str, int]] = {}  # symbol -> array and firing, place
        self.depth = 0
        self.path: list[str] = []  # conditions that hold here
        self.in_expression = 0  # how many of them are within one expression
        self._known: dict[str, Symbol] = {}
        self._count = 0
        self._steps = 0

    def step(self) -> None:
        """Give up on functions that would take long to trace."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            msg = f"takes more than {MOST_STEPS} steps to trace"
            raise RefusedError(msg)

    def name(self) -> str:
        """Return a new name."""
        self._count += 1
        return f"v{self._count}"

    def write(self, text: str) -> None:
        """Add a line."""
        if len(self.lines) >= LONGEST:
            msg = f"takes more than {LONGEST} steps for one firing"
            raise RefusedError(msg)
        self.lines.append((self.depth, text))

    def new(self, kind: Kind, text: str, low: int = 0, high: int = 0) -> Symbol:
        """Return the number that an expression gives."""
        if kind == "int" and (low < -LARGEST or high > LARGEST):
            msg = "computes whole numbers that may not fit 64 bits"
            raise RefusedError(msg)
        key = f"{kind}:{text}"
        if key not in self._known:
            made = Symbol(self.name(), kind, low, high)
            self.kinds[made.name] = kind
            self.write(f"{made.name} = {text}")
            self._known[key] = made
        return self._known[key]

    def constant(self, value: float) -> str:
        """Return how a known float is written: a place in the list of constants."""
        self.constants.append(value)
        self.scalars.append(len(self.constants) - 1)
        return f"k{len(self.constants) - 1}"

    def row(self, values: Sequence[float]) -> int:
        """Return where known floats begin that a loop goes through."""
        start = len(self.constants)
        self.constants.extend(values)
        return start

    def load(
        self, kind: Kind, array: str, place: int, bounds: tuple[int, int]
    ) -> Symbol:
        """Return a number of the input; `array` is written with where a firing begins.

        It has no line of its own: what nobody uses should not be read.
        """
        name = f"{array} + {place}]" if place else f"{array}]"
        self.loads[name] = (array, place)
        return Symbol(name, kind, *bounds)

    def text(self, value: Symbol | Known) -> str:
        """Return how a number is written in an expression."""
        if isinstance(value, Symbol):
            return value.name
        if type(value) is float:
            return self.constant(value)
        if type(value) is int and abs(value) > LARGEST:
            msg = "computes with a whole number that does not fit 64 bits"
            raise RefusedError(msg)
        return f"({value!r})" if value < 0 else repr(value)

    def fail_if(self, condition: str) -> None:
        """Add a check: if the condition holds here, Python takes over."""
        self.write(f"bad = bad | ({' & '.join([*self.path, f'({condition})'])})")

    @contextmanager
    def under(self, condition: str, *, expression: bool = False) -> Iterator[None]:
        """Trace what only counts if a condition holds."""
        self.path.append(condition)
        self.in_expression += expression
        try:
            yield
        finally:
            self.in_expression -= expression
            self.path.pop()

    @contextmanager
    def loop(self, head: str) -> Iterator[None]:
        """Trace the body of a loop; what it computes is not known behind it."""
        known = dict(self._known)
        self.write(head)
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            self._known = known
