"""Failures: items that an operator or a source cannot process.

A failing program stops at the failure that one thread would have met first. A replica that fails on an item sends on the outputs of the items before it, and then a
*break* in the place of the item. A break passes through merges like any item, so it is
released after everything before it; its receiver stops there and passes it on. The
first break to reach a sink is therefore the one that a single thread would have met
first on the way to that sink; of the breaks that reach several sinks, the first counts.
"""

from __future__ import annotations

import json
import logging
import os
import traceback
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from anabranch.errors import (
    AnabranchError,
    ArgumentError,
    CheckpointError,
    EngineError,
    OperatorError,
    OutputError,
    advise,
)
from anabranch.graph.graph import Graph, Op
from anabranch.graph.paths import path_advice, plain_path, why_not_path
from anabranch.graph.site import Site, site_of
from anabranch.logs import log, logger_of
from anabranch.operators.custom import Apply
from anabranch.operators.iterate import GatheredItems
from anabranch.operators.stateless import WINDOW, FlatMap, describe_function
from anabranch.runtime.memory_reserve import ADVICE, release_for
from anabranch.runtime.reprs import shorten, show

_LOGGER = logger_of("runtime")
END = "the end of the stream"
RECENT_FAILURES = 20  # that are kept as samples
_PACKAGE = str(Path(__file__).resolve().parent.parent)


@dataclass(frozen=True)
class Failure:
    """An item that could not be processed.

    `where` is the item's location: the number of the source tuple that led to it, or
    the file and row that it was read from. An operator that fails at the end of the
    stream fails without an item: `item` is None, and `key` is the key whose state it
    was finishing.
    """

    operator: str
    site: Site
    item: Any
    where: str
    error: Exception
    has_item: bool = True
    key: Any = None
    raised_at: str | None = None  # file and line, if the error has no frames
    place: tuple[int, ...] | None = None  # `where` as numbers, if known
    rank: bytes = b""  # at the end of the stream, among the turns of all replicas

    @property
    def text(self) -> str:
        """The failure as one line: operator, place, item, the user's own error."""
        line = self.raised_at or user_line(self.error)
        at = "" if line is None else f" (raised at {line})"
        place = f"at {END}" if self.where == END else f"on {self.where}"
        place += "" if self.key is None else f" for key {shorten(self.key)}"
        item = f"{shorten(self.item)}: " if self.has_item else ""
        return (
            f"operator {self.operator!r} ({self.site}) failed {place}: "
            f"{item}{name_error(self.error)}{at}"
        )


OnError: TypeAlias = Callable[[Failure], None]  # returns to continue without the item


def stop(failure: Failure) -> None:
    """Stop the job: raise the failure as an error that points at the user's line."""
    bare = isinstance(failure.error, OperatorError) or _is_bare_misfit(failure)
    error = failure.error
    if isinstance(error, AnabranchError) and not bare:
        raise _locate(error, failure)
    kind = type(error) if isinstance(error, AnabranchError) else OperatorError
    told = kind(failure.text)
    raise _locate(told, failure) from error


def _locate(error: AnabranchError, failure: Failure) -> AnabranchError:
    error.place, error.rank = failure.place, failure.rank
    error.operator = failure.operator
    return error


def _is_bare_misfit(failure: Failure) -> bool:
    """Tell whether an item does not fit a sink, and the error says nothing more."""
    own = isinstance(failure.error, OutputError) and failure.has_item
    return own and repr(failure.operator) not in str(failure.error)


def skip(failure: Failure) -> None:
    """Skip the item."""


@dataclass(frozen=True)
class DeadLetter:
    """Sends failures to `target`: a function, or the path of a JSON lines file."""

    target: Callable[[Failure], Any] | str

    def __call__(self, failure: Failure) -> None:
        if not isinstance(self.target, str):
            self._call(self.target, failure)
            return
        record = {
            "operator": failure.operator,
            "where": failure.where,
            "item": show(failure.item) if failure.has_item else None,
            "error": name_error(failure.error),
            "site": str(failure.site),
        }
        if failure.key is not None:
            record["key"] = show(failure.key)
        try:
            with Path(self.target).open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            msg = (
                f"the file of dead letters {self.target} must be writable; "
                f"{error.strerror or error} (it was to note that {failure.operator!r} "
                f"failed on {failure.where}); "
                + advise(error, "check the path, its permissions and the disk")
            )
            raise OutputError(msg) from error

    def _call(self, target: Callable[[Failure], Any], failure: Failure) -> None:
        try:
            target(failure)
        except AnabranchError:
            raise
        except Exception as error:
            name = getattr(target, "__name__", type(target).__name__)
            line = user_line(error)
            at = "" if line is None else f"at {line}: "
            msg = (
                f"the function of dead letters {name!r} ({site_of(target)}) must take "
                f"every failure; it failed, {at}{name_error(error)} (it was given: "
                f"{failure.text}); correct it"
            )
            raise OutputError(msg) from error


def dead_letter(
    target: Callable[[Failure], Any] | str | os.PathLike[str],
) -> DeadLetter:
    """Return the `on_error` that sends each failure to a function or a file.

    >>> import anabranch as ab
    >>> lost = []
    >>> out = ab.from_iterable([1, 0]).map(lambda n: 1 // n).to_list()
    >>> _ = ab.run(out, on="sequential", on_error=ab.dead_letter(lost.append))
    >>> out.items, [failure.item for failure in lost]
    ([1], [0])
    """
    if callable(target):
        return DeadLetter(target)
    path = plain_path(target)
    why = why_not_path(path)
    if why is not None:
        msg = (
            f"dead letters must go to a function or to a file of this machine; {why}; "
            f"{path_advice(path)}"
        )
        raise ArgumentError(msg)
    return DeadLetter(path)


def policy(on_error: str | OnError) -> OnError:
    """Return the policy that `on_error` names.

    >>> policy("skip") is skip
    True
    """
    if callable(on_error):
        return on_error
    if on_error not in ("stop", "skip"):
        msg = (
            f"on_error must be 'stop', 'skip' or ab.dead_letter(...); got {on_error!r}"
        )
        raise ArgumentError(msg)
    return stop if on_error == "stop" else skip


def function_of(on_error: OnError) -> Callable[[Failure], Any] | None:
    """Return the user's function that receives failures, if there is one.

    >>> function_of(dead_letter(print)), function_of(stop)
    (<built-in function print>, None)
    """
    if on_error is stop or on_error is skip:
        return None
    if not isinstance(on_error, DeadLetter):
        return on_error
    return None if isinstance(on_error.target, str) else on_error.target


class FailureCounts:
    """Counts the failures of each operator before `on_error` sees them.

    The first of an operator is logged as a warning, the others as information. The most
    recent are kept as text, for the dashboard.

    >>> counts = FailureCounts(skip)
    >>> counts(Failure("ratio", Site("job.py", 3), 0, "item 1", ValueError("zero")))
    >>> counts.by_operator()
    {'ratio': 1}
    >>> counts.recent()
    ("operator 'ratio' (job.py:3) failed on item 1: 0: ValueError: zero",)
    """

    def __init__(self, on_error: OnError) -> None:
        self.on_error = on_error
        self._counts: Counter[str] = Counter()
        self._recent: deque[Failure] = deque(maxlen=RECENT_FAILURES)

    def __call__(self, failure: Failure) -> None:
        first = failure.operator not in self._counts
        self._counts[failure.operator] += 1
        self._recent.append(failure)
        level = logging.WARNING if first else logging.INFO
        if _LOGGER.isEnabledFor(level):
            text = failure.text
            log(
                _LOGGER, level, "item left out", operator=failure.operator, failure=text
            )
        self.on_error(failure)

    def by_operator(self) -> dict[str, int]:
        """Return the number of failed items per operator."""
        return dict(self._counts)

    def recent(self) -> tuple[str, ...]:
        """Return the most recent failures as text, oldest first."""
        return tuple(failure.text for failure in tuple(self._recent))


def failure_of(
    op: Op,
    item: Any,
    where: str,
    error: Exception,
    place: tuple[int, ...] | None = None,
) -> Failure:
    """Return the failure of an operator on an item.

    An engine failure, such as an unreadable state, is not the item's fault: it is
    raised, and stops the job whatever `on_error` says. A gathered window fails where it
    was closed.
    """
    if isinstance(item, GatheredItems):
        if item.at_end:
            return failure_at_end(op, (), error)
        item = WINDOW
    raise_own(error)
    error = explain_outputs(op, explain_key(op, item, error))
    failure = Failure(op.name, op.site, item, where, error, place=place)
    refuse_lack_of_memory(failure)
    return failure


def name_place(graph: Graph, place: int | None) -> str:
    """Return the text for an item's number among those of the sources.

    >>> name_place(Graph(()), None)
    'an item'
    """
    if place is None:
        return "an item"
    if len(graph.sources) != 1:
        return f"item {place} of the sources"
    return f"item {place} of {graph.sources[0].name}"


def failure_at_end(op: Op, key: Any, error: Exception) -> Failure:
    """Return the failure of an operator at the end of the stream.

    >>> from anabranch.operators.custom import Scan
    >>> op = Op("count", Scan(lambda n, item: (n + 1, n), 0), key=("symbol",))
    >>> failure = failure_at_end(op, "A", ValueError("no trades"))
    >>> failure.where, failure.key, failure.item
    ('the end of the stream', 'A', None)
    """
    raise_own(error)
    own = key if op.keyed_by else None
    failure = Failure(op.name, op.site, None, END, error, has_item=False, key=own)
    refuse_lack_of_memory(failure)
    return failure


def explain_key(op: Op, item: Any, error: Exception) -> Exception:
    """Return an error that names the key, if an item failed because of it.

    >>> from anabranch.operators.custom import Scan
    >>> op = Op("count", Scan(lambda n, item: (n + 1, n), 0), key=("tags",))
    >>> explain_key(op, {"tags": ["a"]}, TypeError("unhashable type: 'list'"))
    OperatorError("a key must be hashable; unhashable type: 'list' (key: tags); key by \
a tuple or another value that does not change, such as tuple(...)")
    """
    names = op.keyed_by or getattr(op.kind, "on", ())
    own = type(error) is TypeError and user_line(error) is None
    if not (own and names and str(error).startswith("unhashable type")):
        return error
    values = [
        f"{name} = {shorten(getattr(item, name))}" if hasattr(item, name) else name
        for name in names
    ]
    told = OperatorError(
        f"a key must be hashable; {error} (key: {', '.join(values)}); key by a tuple or "
        f"another value that does not change, such as tuple(...)"
    )
    told.__cause__ = error
    return told


def explain_outputs(op: Op, error: Exception) -> Exception:
    """Return an error that says what to return, if a function gave no iterable.

    >>> from anabranch.operators.stateless import FlatMap
    >>> op = Op("spread", FlatMap(lambda item: item))
    >>> str(explain_outputs(op, TypeError("'int' object is not iterable"))).split("; ")[1]
    "'int' object is not iterable"
    """
    if not isinstance(op.kind, FlatMap | Apply) or user_line(error) is not None:
        return error
    own = type(error) is TypeError and str(error).endswith("object is not iterable")
    kind = op.kind
    function = kind.operator.process if isinstance(kind, Apply) else kind.function
    if not own or not hasattr(function, "__code__"):
        return error
    told = OperatorError(
        f"{describe_function(function)} must give an iterable of outputs; {error}; "
        f"return a list of outputs, or yield them (map takes a function that gives one)"
    )
    told.__cause__ = error
    return told


def refuse_lack_of_memory(failure: Failure) -> None:
    """Stop the job, whatever `on_error` says, if an item failed for want of memory.

    Another process would have had enough: to leave the item out would make the result
    depend on the machine.
    """
    if isinstance(failure.error, MemoryError):
        release_for(failure.error)
        msg = (
            f"an operator must have enough memory for its items; {failure.text}; "
            f"{ADVICE}"
        )
        told = EngineError(msg)
        told.place = failure.place
        raise told from failure.error


def raise_own(error: Exception) -> None:
    """Raise an error of the engine itself, or of a whole file; return on others.

    >>> raise_own(ValueError("thirteen"))
    """
    if isinstance(error, CheckpointError | EngineError):
        raise error
    if isinstance(error, OutputError) and error.lasting:
        raise error


def travelling(failure: Failure, takes: Callable[[Any], bool]) -> Failure:
    """Return a failure that can be sent to another process.

    An item or error that cannot be pickled is replaced by its description.

    >>> failure = Failure("a", Site("job.py", 1), print, "item 1", ValueError("no"))
    >>> travelling(failure, lambda value: isinstance(value, Exception)).item
    '<built-in function print>'
    """
    item, error = failure.item, failure.error
    if not takes(item):
        item = shorten(item)
    if not takes(error):
        error = RuntimeError(name_error(error))
    return replace(failure, item=item, error=error)


def name_error(error: BaseException) -> str:
    """Return the type and text of an error, even if its text cannot be obtained.

    >>> name_error(KeyError("symbol"))
    "KeyError: 'symbol'"
    """
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as other:  # noqa: BLE001 - the user's `__str__` may raise anything
        return f"{type(error).__name__}, whose text fails with {type(other).__name__}"


def user_line(error: BaseException) -> str | None:
    """Return the innermost line of user code that the error passed."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith((_PACKAGE, "<")):
            return f"{frame.filename}:{frame.lineno}"
    return None
