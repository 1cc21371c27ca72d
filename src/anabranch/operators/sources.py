"""The kinds of sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from anabranch.graph.kind import SourceKind, UserCode

Format = Literal["csv", "jsonl", "text", "parquet"]
RowFormat = Literal["csv", "jsonl", "text"]  # the format of a row
ValueFormat = Literal["csv", "jsonl", "text", "avro"]  # the format of a message's value


@dataclass(frozen=True, eq=False)
class FromIterable(SourceKind):
    """The items of a collection that can be read again."""

    items: Iterable[Any] = field(repr=False)
    label: ClassVar[str] = "from_iterable"

    @property
    def in_parallel(self) -> bool:
        return isinstance(self.items, list | tuple | range)


@dataclass(frozen=True, eq=False)
class Generate(SourceKind):
    """The items of `factory()`, a fresh and repeatable iterator, possibly endless.

    `born` returns the birth time of an item, in seconds since 1970.
    """

    factory: Callable[[], Iterator[Any]]
    born: Callable[[Any], float] | None = None
    label: ClassVar[str] = "generate"

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return (UserCode("factory", self.factory),)

    @property
    def in_parallel(self) -> bool:
        return False


@dataclass(frozen=True, eq=False)
class ReadFiles(SourceKind):
    """The rows of a file, or of all files of a directory or pattern, by name.

    With `follow` the source does not end: files that appear later are read too.
    """

    path: str
    format: Format
    type: Any
    header: bool = True
    delimiter: str = ","
    follow: bool = False

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"read_{self.format}"

    @property
    def live(self) -> bool:
        return self.follow

    @property
    def in_parallel(self) -> bool:
        return not self.path.endswith(".gz")


@dataclass(frozen=True, eq=False)
class FromSpark(SourceKind):
    """The rows of a user's DataFrame; each micro-batch is an epoch.

    The DataFrame belongs to the driver and is not sent to workers.
    """

    frame: Any
    trigger: tuple[tuple[str, Any], ...] = ()
    label: ClassVar[str] = "from_spark"

    @property
    def live(self) -> bool:
        return self.frame is not None and bool(self.frame.isStreaming)

    def __reduce__(self) -> tuple[Any, ...]:
        return FromSpark, (None, self.trigger)


@dataclass(frozen=True, eq=False)
class ReadSource(SourceKind):
    """The rows of an `ab.Source`."""

    source: Any

    @property
    def label(self) -> str:  # type: ignore[override]
        return getattr(self.source, "label", "read")

    @property
    def live(self) -> bool:
        return getattr(self.source, "live", False)


@dataclass(frozen=True, eq=False)
class Given(SourceKind):
    """The entry through which a surrounding operator (`iterate`) feeds items."""

    label: ClassVar[str] = "given"
