"""The kinds of sinks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

from anabranch.graph.graph import Op
from anabranch.graph.kind import (
    NONE,
    SinkKind,
    Traits,
    UserCode,
    keep_nothing,
    keep_one_state,
)
from anabranch.graph.paths import split_options


@dataclass(frozen=True, eq=False)
class ToList(SinkKind):
    """Collect the items in memory; in order, unless it is `unordered`."""

    items: list[Any] = field(default_factory=list, repr=False)
    unordered: bool | None = None  # None is no part of what a checkpoint knows
    label: ClassVar[str] = "to_list"

    def traits(self, op: Op) -> Traits:
        return keep_nothing(op, NONE, unordered=bool(self.unordered))


@dataclass(frozen=True, eq=False)
class ForEach(SinkKind):
    """Call `function(item)` for each item in the caller's process.

    It is called in order, unless it is `unordered`.
    """

    function: Callable[[Any], Any]
    unordered: bool | None = None  # None is no part of what a checkpoint knows
    label: ClassVar[str] = "for_each"

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return (UserCode("function", self.function),)

    def traits(self, op: Op) -> Traits:
        order = "any order" if self.unordered else "order"
        text = f"for_each calls its function in {order}, in the process of the caller"
        return keep_one_state(op, text, NONE, unordered=bool(self.unordered))


def is_unordered(op: Op) -> bool:
    """Tell whether an operator is a sink that takes its items in any order."""
    return isinstance(op.kind, SinkKind) and bool(getattr(op.kind, "unordered", False))


def is_in_parts(op: Op) -> bool:
    """Tell whether an operator is a sink that tasks write, each a part of an epoch."""
    return isinstance(op.kind, WriteFiles) or (
        isinstance(op.kind, WriteSink) and op.kind.in_parts
    )


Mode: TypeAlias = Literal["error", "overwrite", "append"]


@dataclass(frozen=True, eq=False)
class WriteFiles(SinkKind):
    """Write the items to a directory of parts, or to one file.

    A path with the format's own extension is one file; any other is a directory whose
    parts, sorted by name, are the output. `mode` says what happens to an existing
    output. With one of the `roll` limits, parts appear while the job runs: at that age,
    or with that many items or bytes. If `unordered`, items may be in any order.
    """

    path: str
    format: Literal["csv", "jsonl", "parquet"]
    mode: Mode = "error"
    roll_s: float | None = None
    roll_items: int | None = None
    roll_bytes: int | None = None
    unordered: bool | None = None  # None is not part of a checkpoint's description

    @property
    def rolls(self) -> bool:
        """Whether parts appear while the job runs."""
        return not self.roll_s is self.roll_items is self.roll_bytes is None

    @property
    def single(self) -> bool:
        """Whether the output is one file."""
        return split_options(self.path)[0].endswith(f".{self.format}")

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"write_{self.format}"

    def traits(self, op: Op) -> Traits:
        parallel, anyhow = not self.single, bool(self.unordered)
        return keep_nothing(op, NONE, in_parallel=parallel, unordered=anyhow)


@dataclass(frozen=True, eq=False)
class EpochSink(SinkKind):
    """The base of external sinks, which receive the items of an epoch at once; in
    order, unless one is `unordered`.
    """

    @property
    def unordered(self) -> bool | None:
        """Whether it takes the items of an epoch in any order."""
        return None

    def traits(self, op: Op) -> Traits:
        if is_in_parts(op):
            anyhow = bool(self.unordered)
            return keep_nothing(op, NONE, in_parallel=True, unordered=anyhow)
        order = "any order" if self.unordered else "order"
        text = f"{self.label} takes the items of an epoch in {order}, at one place"
        return keep_one_state(op, text, NONE, unordered=bool(self.unordered))


@dataclass(frozen=True, eq=False)
class ToSpark(EpochSink):
    """Call `function(DataFrame, epoch)` with the items of each epoch, in order.

    The function belongs to the driver and is not sent to workers.
    """

    function: Callable[[Any, int], Any]
    label: ClassVar[str] = "to_spark"

    def __reduce__(self) -> tuple[Any, ...]:
        return ToSpark, (None,)


@runtime_checkable
class Committing(Protocol):
    """The argument of `Stream.write`: anything with the methods of `ab.Sink`."""

    def open(self, job: str, type: Any) -> int | None: ...
    def write(self, items: Any) -> Any: ...
    def prepare(self, epoch: int) -> None: ...
    def commit(self, epoch: int) -> None: ...
    def abort(self, epoch: int) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class SinkPart:
    """The items that one task writes of an epoch, for `Sink.write_part`.

    `name` has letters, digits and hyphens. Each attempt of a task has another one. By
    these names, the parts of a job are in the order of its items. `job` and `type` are
    the arguments of `Sink.open`.

    >>> import anabranch as ab
    >>> class Prices(ab.Sink):
    ...     def write_part(self, part, items):
    ...         for number, price in enumerate(items):
    ...             if price < 0:
    ...                 part.refuse(number, "a price is at least 0")
    ...         return [price for price in items if price >= 0]
    ...     def commit_parts(self, epoch, parts):
    ...         print("epoch", epoch, parts)
    >>> prices = ab.from_iterable([5, -1, 7], int).write(Prices())
    >>> _ = ab.run(prices, on="sequential", on_error="skip")
    epoch 1 [[5, 7]]
    """

    name: str
    epoch: int
    job: str
    type: Any
    refused: dict[int, str | Exception] = field(default_factory=dict, repr=False)

    def refuse(self, number: int, reason: str | Exception) -> None:
        """Leave out an item, by its place among those of the part; `on_error` decides."""
        self.refused[number] = reason


@dataclass(frozen=True, eq=False)
class WriteSink(EpochSink):
    """Write the items of each epoch to an `ab.Sink`.

    The sink belongs to the driver and is not sent to workers.
    """

    sink: Committing | None
    anyhow: bool | None = None  # what a worker knows, which has no sink

    @property
    def unordered(self) -> bool | None:
        return self.anyhow or not getattr(self.sink, "ordered", True) or None

    @property
    def in_parts(self) -> bool:
        """Whether it has the method `write_part`."""
        return getattr(self.sink, "in_parts", False)

    @property
    def label(self) -> str:  # type: ignore[override]
        return getattr(self.sink, "label", "write")

    def __reduce__(self) -> tuple[Any, ...]:
        return WriteSink, (None, self.unordered)
