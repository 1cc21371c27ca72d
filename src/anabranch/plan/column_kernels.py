"""Column kernels in the plan: text to compile, and its interface.

A kernel runs one operator on a batch of columns. Its text is a function that returns
the number of items it has processed: if not all, Python might have behaved differently
on the next one, and nothing the kernel wrote counts.

An element is divided into segments that alternate between columns and Python. A batch
goes through one segment after the other. Operators that have kernels are in
segments with an even number, the others in those with an odd one, each as early as its
producers allow. So streams may fork and meet: a segment reads from earlier ones only,
and every operator sees its items in order.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from anabranch.graph.graph import Edge, Graph
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.operators.stateless import Split

ColumnKind: TypeAlias = Literal[
    "int",
    "float",
    "bool",
    "str",
    "bytes",
    "enum",
    "datetime",
    "date",
    "timedelta",
    "none",
]
ColumnRole: TypeAlias = Literal[
    "map",
    "filter",
    "flat_map",
    "scan",
    "window",
    "split",
    "routes",
    "union",
    "clock",
]

COLUMN_KINDS: tuple[ColumnKind, ...] = get_args(ColumnKind)
CODED: tuple[ColumnKind, ...] = ("str", "bytes", "enum")  # an int represents the value
TIMES: tuple[ColumnKind, ...] = ("datetime", "date", "timedelta")
_MICROSECOND = dt.timedelta(microseconds=1)
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - times in columns have no zone
_LETTERS: dict[ColumnKind, str] = {
    "int": "i",
    "float": "f",
    "bool": "b",
    "str": "s",
    "bytes": "y",
    "enum": "e",
    "datetime": "m",
    "date": "d",
    "timedelta": "l",
}


@dataclass(frozen=True)
class ColumnShape:
    """The layout of a value in arrays: the kinds of a scalar, or a tuple of shapes.

    A scalar of several kinds has an array of tags (indices into `COLUMN_KINDS`), and
    then one per kind but None. `type` is that of a NamedTuple or of an Enum.
    """

    kinds: tuple[ColumnKind, ...] = ()
    type: Any = None
    parts: tuple[ColumnShape, ...] | None = None

    @property
    def is_flat_record(self) -> bool:
        """Whether it is that of a NamedTuple without tuples in it."""
        parts = self.parts
        return (
            self.type is not None
            and parts is not None
            and all(part.parts is None for part in parts)
        )

    def scalars(self) -> Iterator[ColumnShape]:
        """Yield its scalars, in order."""
        if self.parts is None:
            yield self
        else:
            for part in self.parts:
                yield from part.scalars()

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The suffixes of its variable names, in the order of its arrays.

        >>> ColumnShape(("int", "none")).suffixes
        ('_t', '_i')
        """
        if len(self.kinds) == 1:
            return () if self.kinds == ("none",) else ("",)
        return ("_t", *(suffix_of(kind) for kind in self.kinds if kind != "none"))

    @property
    def arrays(self) -> tuple[ColumnKind, ...]:
        """The kinds of its arrays; a tag is an int."""
        if len(self.kinds) == 1:
            return () if self.kinds == ("none",) else self.kinds
        return ("int", *(kind for kind in self.kinds if kind != "none"))

    def place_of(self, name: str) -> int | None:
        """Return the index of an attribute's scalar, None if there is none.

        >>> from typing import NamedTuple
        >>> class Point(NamedTuple):
        ...     x: int
        ...     y: float
        >>> parts = ColumnShape(("int",)), ColumnShape(("float",))
        >>> ColumnShape((), Point, parts).place_of("y")
        1
        """
        if self.parts is None or self.type is None:
            return None
        first, _, rest = name.partition(".")
        place = 0
        for own, part in zip(self.type._fields, self.parts, strict=True):
            if own != first:
                place += len(list(part.scalars()))
            elif rest:
                inner = part.place_of(rest)
                return None if inner is None else place + inner
            else:
                return place if part.parts is None else None
        return None


def suffix_of(kind: ColumnKind) -> str:
    """Return the suffix of the variable for one of several kinds."""
    return f"_{_LETTERS[kind]}"


def count_time(value: Any) -> int:
    """Return the integer that represents a time.

    >>> count_time(dt.timedelta(milliseconds=2)), count_time(dt.date(1, 1, 2))
    (2000, 2)
    """
    if isinstance(value, dt.timedelta):
        return value // _MICROSECOND
    if isinstance(value, dt.datetime):
        return (value - _EPOCH) // _MICROSECOND
    return int(value.toordinal())


def restore_time(number: int, kind: ColumnKind) -> Any:
    """Return the time that an integer represents.

    >>> restore_time(2, "date")
    datetime.date(1, 1, 2)
    """
    if kind == "date":
        return dt.date.fromordinal(number)
    span = dt.timedelta(microseconds=number)
    return span if kind == "timedelta" else _EPOCH + span


TableItems: TypeAlias = tuple[tuple[Any, Any], ...] | None


@dataclass(frozen=True)
class StringTable:
    """A function of one string: an expression in `s`, and its result's kind.

    The expression may use a dict of the program, `d`, whose items are `items`, or call
    a function of the program, `f`. It may be of any coded kind, `of`. The expression
    `rank` gives the rank of a string among all. If it gives members of an Enum, `kind`
    is that.

    >>> StringTable("d[s] + len(s)", "int", (("ab", 40),)).function()("ab")
    42
    """

    text: str
    gives: ColumnKind
    items: TableItems = None
    of: ColumnKind = "str"
    call: Callable[..., Any] | None = None
    kind: Any = None

    def function(self) -> Callable[[Any], Any]:
        """Return the function itself."""
        names = {"d": None if self.items is None else dict(self.items), "f": self.call}
        made: Callable[[Any], Any] = eval(f"lambda s: {self.text}", names)  # noqa: S307 - text of our own, of constants
        return made


@dataclass(frozen=True)
class ColumnWindow:
    """The items of a window in a kernel; the scalar it is on, and its kind.

    `bound` is the kind of the start and the end of a window, if the kernel needs them.
    """

    window: Any
    on: int | None = None
    kind: ColumnKind = "int"
    bound: ColumnKind | None = None

    @property
    def in_place(self) -> bool:
        """Whether a kernel reads items where they are, by an array with their order.

        If windows overlap, it gets the items of each key in order: to copy them once is
        cheaper than to read each at random several times.
        """
        return self.window.count is not None and self.window.every is None


@dataclass(frozen=True)
class ColumnKernel:
    """An operator as a function over columns.

    Items are scalars in the shape `takes`, of which the text needs those with the
    indices `reads`. Scalar n of an output, which is of the shape `gives`, is the scalar
    `sources[n]` of its item, unchanged, or else computed by the kernel. `constants` are
    the coded ones, with their kinds. A union and a clock have no text.
    """

    operator: str
    role: ColumnRole
    takes: ColumnShape
    reads: tuple[int, ...]
    gives: ColumnShape
    sources: tuple[int | None, ...]
    text: str
    state: ColumnShape | None = None
    constants: tuple[tuple[ColumnKind, Any], ...] = ()
    tables: tuple[StringTable, ...] = ()
    window: ColumnWindow | None = None

    @property
    def read_shapes(self) -> list[ColumnShape]:
        """The shapes of the item parts that the text reads."""
        scalars = list(self.takes.scalars())
        return [scalars[n] for n in self.reads]

    @property
    def computed(self) -> list[ColumnShape]:
        """The shapes of the output parts that the text computes."""
        pairs = zip(self.gives.scalars(), self.sources, strict=True)
        return [shape for shape, source in pairs if source is None]


@dataclass(frozen=True)
class RunsAs:
    """How an operator runs, in columns or in Python, and why."""

    operator: str
    why: str
    kernel: ColumnKernel | None = None

    @property
    def runs(self) -> Literal["columns", "python"]:
        """The word for it."""
        return "python" if self.kernel is None else "columns"


@dataclass(frozen=True)
class ElementSegment:
    """Operators of an element that run together, in columns or in Python."""

    operators: tuple[str, ...]
    in_columns: bool

    def find_entries(self, graph: Graph) -> tuple[Edge, ...]:
        """Return the streams that lead into it."""
        return tuple(
            edge
            for edge in graph.edges
            if edge.consumer.operator in self.operators
            and edge.producer.operator not in self.operators
        )


def divide_into_segments(
    graph: Graph, operators: Iterable[str], in_columns: Collection[str]
) -> tuple[ElementSegment, ...]:
    """Return the segments of an element, in the order in which they run.

    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kind import Kind
    >>> ops = [Op("a", Kind())] + [Op(n, Kind(), (Output("a"),)) for n in "bc"]
    >>> ops.append(Op("d", Kind(), (Output("b"), Output("c"))))
    >>> made = divide_into_segments(Graph(tuple(ops)), "abcd", "abd")
    >>> [("".join(one.operators), one.in_columns) for one in made]
    [('ab', True), ('c', False), ('d', True)]
    """
    inside = {*operators}
    number: dict[str, int] = {}
    for op in graph:
        if op.name not in inside or isinstance(op.kind, SourceKind | SinkKind):
            continue
        earliest = max((number.get(p, 0) for p in graph.producers(op.name)), default=0)
        in_python = op.name not in in_columns
        number[op.name] = earliest + (earliest % 2 != in_python)
    return tuple(
        ElementSegment(tuple(name for name in number if number[name] == n), n % 2 == 0)
        for n in sorted({*number.values()})
    )


def is_line(graph: Graph, inner: Sequence[str]) -> bool:
    """Tell whether operators form a straight line with one output stream."""
    if any(
        len(graph.out_edges(name)) != 1
        or len(graph[name].inputs) != 1
        or isinstance(graph[name].kind, Split)  # even if one of its streams is read
        for name in inner
    ):
        return False
    return sum(graph.producers(name)[0] not in inner for name in inner) == 1


def why_not_in_segments(
    graph: Graph,
    segments: Sequence[ElementSegment],
    effects: Collection[str],
    together: Sequence[Sequence[str]],
) -> str | None:
    """Return why an element cannot run segment by segment, or None.

    Operators that share something, or have visible effects, would notice that others
    take a whole batch before them. They can be in one segment whose items come in one
    stream.
    """
    for group in (sorted(effects), *together):
        holding = [one for one in segments if not {*group}.isdisjoint(one.operators)]
        inside = [name for one in holding for name in one.operators if name in group]
        if len(inside) > 1 and (
            len(holding) > 1 or len(holding[0].find_entries(graph)) > 1
        ):
            first, second = inside[:2]
            return f"{first} and {second}, which run with it, must take turns by item"
    return None
