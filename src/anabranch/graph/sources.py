"""What a program reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from anabranch.graph.kinds import Kind, UserCode

Format = Literal["csv", "jsonl", "text", "parquet"]


@dataclass(frozen=True, eq=False)
class Source(Kind):
    """The base of every source."""

    label: ClassVar[str] = "source"


@dataclass(frozen=True, eq=False)
class FromIterable(Source):
    """The items of a collection that can be read again."""

    items: Iterable[Any]
    label: ClassVar[str] = "from_iterable"


@dataclass(frozen=True, eq=False)
class Generate(Source):
    """The items of `factory()`, a fresh and repeatable iterator, possibly endless."""

    factory: Callable[[], Iterator[Any]]
    label: ClassVar[str] = "generate"

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return (UserCode("factory", self.factory),)


@dataclass(frozen=True, eq=False)
class ReadFiles(Source):
    """The rows of a file, or of all files of a directory or pattern, by name."""

    path: str
    format: Format
    type: Any
    header: bool = True
    delimiter: str = ","

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"read_{self.format}"


@dataclass(frozen=True, eq=False)
class Given(Source):
    """The place where a surrounding operator (`iterate`) puts items in."""

    label: ClassVar[str] = "given"
