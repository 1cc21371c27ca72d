"""What happens to an item that an operator or a source cannot take."""

from __future__ import annotations

import json
import reprlib
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from anabranch.errors import AnabranchError, OperatorError
from anabranch.graph.graph import Op
from anabranch.graph.site import Site

_PACKAGE = str(Path(__file__).resolve().parent.parent)
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 200
_short.maxtuple = _short.maxlist = 20


@dataclass(frozen=True)
class Failure:
    """An item that could not be processed.

    `where` tells the item's place: the number of the source tuple that led to it, or
    the file and row that it was read from.
    """

    operator: str
    site: Site
    item: Any
    where: str
    error: Exception

    @property
    def text(self) -> str:
        """The failure as one line: operator, place, item, the user's own error."""
        line = _user_line(self.error)
        at = "" if line is None else f" (raised at {line})"
        return (
            f"operator {self.operator!r} ({self.site}) failed on {self.where}: "
            f"{_short.repr(self.item)}: {type(self.error).__name__}: {self.error}{at}"
        )


OnError: TypeAlias = Callable[[Failure], None]  # returns to go on without the item


def stop(failure: Failure) -> None:
    """Stop the job: raise the failure as an error that points at the user's line."""
    if isinstance(failure.error, AnabranchError) and not isinstance(
        failure.error, OperatorError
    ):
        raise failure.error
    kind = (
        type(failure.error)
        if isinstance(failure.error, OperatorError)
        else OperatorError
    )
    raise kind(failure.text) from failure.error


def skip(failure: Failure) -> None:
    """Go on without the item."""


@dataclass(frozen=True)
class DeadLetter:
    """Hand failures over to `target`: a function, or the path of a JSON lines file."""

    target: Callable[[Failure], Any] | str

    def __call__(self, failure: Failure) -> None:
        if not isinstance(self.target, str):
            self.target(failure)
            return
        record = {
            "operator": failure.operator,
            "where": failure.where,
            "item": repr(failure.item),
            "error": f"{type(failure.error).__name__}: {failure.error}",
            "site": str(failure.site),
        }
        with Path(self.target).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def dead_letter(target: Callable[[Failure], Any] | str) -> DeadLetter:
    """Return the `on_error` that sends each failure to a function or a file.

    >>> import anabranch as ab
    >>> lost = []
    >>> out = ab.from_iterable([1, 0]).map(lambda n: 1 // n).to_list()
    >>> _ = ab.run(out, on="sequential", on_error=ab.dead_letter(lost.append))
    >>> out.items, [failure.item for failure in lost]
    ([1], [0])
    """
    return DeadLetter(target)


def policy(on_error: str | OnError) -> OnError:
    """Return what `on_error` means.

    >>> policy("skip") is skip
    True
    """
    if callable(on_error):
        return on_error
    if on_error not in ("stop", "skip"):
        msg = (
            f"on_error must be 'stop', 'skip' or ab.dead_letter(...); got {on_error!r}"
        )
        raise ValueError(msg)
    return stop if on_error == "stop" else skip


def failure_of(op: Op, item: Any, where: str, error: Exception) -> Failure:
    """Return the failure of an operator on an item."""
    return Failure(op.name, op.site, item, where, error)


def _user_line(error: BaseException) -> str | None:
    """Return the innermost line of the user's that the error went through."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith((_PACKAGE, "<")):
            return f"{frame.filename}:{frame.lineno}"
    return None
