"""External sinks: they receive complete epochs of items, in order."""

from __future__ import annotations

import contextlib
import copy
import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from anabranch.connectors.base import Malformed
from anabranch.errors import EngineError, OutputError
from anabranch.graph.graph import Op
from anabranch.operators.sinks import Committing, SinkPart, WriteSink
from anabranch.runtime.failures import name_error, user_line
from anabranch.runtime.ports import AbortedError

# returns to continue without an item
Refuse: TypeAlias = Callable[[Any, Exception], None]


class External(ABC):
    """An open external sink."""

    @abstractmethod
    def write(self, epoch: int, items: Sequence[Any], refuse: Refuse) -> int:
        """Write the items of an epoch and return how many were accepted.

        Epochs come in order. A repeated one has the same items; if the target can tell,
        they are not written twice. An item that does not fit is refused without
        affecting the others.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


T = TypeVar("T")
NONE_YET = (0,)  # the last epoch of a sink that was given none


class PartWriter:
    """Has an `ab.Sink` write parts; a task does so with one that nobody has opened."""

    def __init__(self, op: Op, sink: Any, item_type: Any, job: str) -> None:
        self._op, self._sink = op, sink
        self._type, self._name = item_type, f"{job}-{op.name}"

    def write_part(
        self, place: str, epoch: int, items: Sequence[Any]
    ) -> tuple[str, dict[int, Exception]]:
        """Write a part; return its description as JSON, and why items were refused.

        The names of parts sort by `place`.
        """
        part = SinkPart(f"{place}-{uuid.uuid4().hex}", epoch, self._name, self._type)
        if not getattr(self._sink, "takes_tables", False):
            items = list(items)
        made = self._call("write_part", lambda: self._sink.write_part(part, items))
        refused: dict[int, Exception] = {}
        for number, reason in part.refused.items():
            if type(number) is not int or not 0 <= number < len(items):
                msg = (
                    f"{self._describe} must refuse items by their place, from 0 to "
                    f"{len(items) - 1}; write_part said {number!r}; give the place "
                    f"among items"
                )
                raise OutputError(msg)
            refused[number] = self._explain(Malformed(items[number], reason))
        try:
            described = json.dumps(made)
            if json.loads(described) == made:
                return described, dict(sorted(refused.items()))
        except (TypeError, ValueError, RecursionError):
            pass
        msg = (
            f"{self._describe} must describe a part by what JSON preserves; write_part "
            f"returned {made!r}; return numbers, strings, lists and dicts with strings "
            "as keys"
        )
        raise OutputError(msg)

    def _call(self, method: str, act: Callable[[], T]) -> T:
        """Call a method of the user's sink, naming it in errors."""
        try:
            return act()
        except EngineError:  # a package is missing
            raise
        except OutputError as error:  # of a connector whose message is complete
            msg = f"sink {self._op.name!r} ({self._op.site}) {error}"
            raise type(error)(msg) from error
        except (KeyboardInterrupt, AbortedError):
            raise
        except BaseException as error:  # also SystemExit: a worker would only end
            line = user_line(error)
            at = "" if line is None else f"at {line}: "
            advice = f"correct {method}"
            if method == "write":
                advice += ", or return ab.Malformed for an item that cannot be written"
            msg = (
                f"{self._describe} must take every epoch; {method} failed, {at}"
                f"{name_error(error)}; {advice}"
            )
            raise OutputError(msg) from error

    def _explain(self, row: Malformed) -> Exception:
        """Return the error about an item that was refused."""
        if isinstance(row.reason, Exception):
            return row.reason
        return OutputError(
            f"{self._describe} does not take {row.raw!r}: {row.reason}; correct the "
            f"item, or leave such items out by on_error"
        )

    @property
    def _describe(self) -> str:
        name = type(self._sink).__name__
        return f"sink {self._op.name!r} ({name}, {self._op.site})"


class ConnectorSink(PartWriter, External):
    """An open `ab.Sink`; a committed epoch is not written again.

    `possible` are the epochs that the sink may name as its last one; None: any.
    `write` calls `before_commit` when the sink has prepared the epoch.
    """

    def __init__(
        self,
        op: Op,
        sink: Committing,
        item_type: Any,
        job: str,
        possible: Sequence[int] | None = None,
    ) -> None:
        super().__init__(op, sink, item_type, job)
        self._tasks: PartWriter | None = None
        if getattr(sink, "in_parts", False):  # what `open` sets is not for tasks
            self._tasks = PartWriter(op, copy.copy(sink), item_type, job)
        self.last: Any = self._call("open", lambda: sink.open(self._name, item_type))
        if self.last is not None and type(self.last) is not int:
            msg = (
                f"{self._describe} must return from open the last epoch that was "
                f"committed, or None; it returned {self.last!r}; return a whole number"
            )
            raise OutputError(msg)
        if possible is not None and self.last not in (None, *possible):
            self._refuse_epoch(possible)

    def _refuse_epoch(self, possible: Sequence[int]) -> None:
        """Refuse a number that would leave out epochs, or would hide that some are gone."""
        with contextlib.suppress(OutputError):  # one failure is enough
            self.close()
        wanted = f"{self._describe} must return from open the last epoch of this job"
        if tuple(possible) == NONE_YET:
            msg = (
                f"{wanted}, which has delivered none to it; it returned {self.last}; "
                "store the number under the name of the job that open is given"
            )
            raise OutputError(msg)
        numbers = " or ".join(map(str, possible))
        if isinstance(possible, range):
            numbers = f"at most {possible[-1]}"
        consequence = (
            f"the epochs up to {self.last} would be left out"
            if self.last > possible[-1]
            else f"what it was given after epoch {self.last} is gone"
        )
        msg = (
            f"{wanted}, by the checkpoint {numbers}; it returned {self.last}: "
            f"{consequence}; restore the target of the sink as the job left it, or begin "
            "anew with an empty target and another checkpoint"
        )
        raise OutputError(msg)

    def has(self, epoch: int) -> bool:
        """Tell whether an epoch was committed before."""
        return self.last is not None and epoch <= self.last

    def write(
        self,
        epoch: int,
        items: Sequence[Any],
        refuse: Refuse,
        before_commit: Callable[[], None] = lambda: None,
    ) -> int:
        if self.has(epoch):
            return len(items)
        if self._tasks is not None:
            place = f"{epoch:09}-000000"
            described, left_out = self._tasks.write_part(place, epoch, items)
            for number, error in left_out.items():
                refuse(items[number], error)
            self.commit_parts(epoch, [described])
            return len(items) - len(left_out)
        try:
            refused = self._write(items)
            for row in refused:
                refuse(row.raw, self._explain(row))
            self._call("prepare", lambda: self._sink.prepare(epoch))
            before_commit()
        except BaseException:
            with contextlib.suppress(OutputError):  # one failure is enough
                self._call("abort", lambda: self._sink.abort(epoch))
            raise
        self._call("commit", lambda: self._sink.commit(epoch))
        self.last = epoch
        return len(items) - len(refused)

    def commit_parts(self, epoch: int, described: Sequence[str]) -> None:
        """Commit the parts of an epoch, by their descriptions, unless it was before."""
        if not self.has(epoch):
            parts = [json.loads(one) for one in described]
            self._call("commit_parts", lambda: self._sink.commit_parts(epoch, parts))
            self.last = epoch

    def close(self) -> None:
        self._call("close", self._sink.close)

    def _write(self, items: Sequence[Any]) -> list[Malformed]:
        if not getattr(self._sink, "takes_tables", False):
            items = list(items)
        found = self._call("write", lambda: list(self._sink.write(items) or ()))
        strange = next((one for one in found if not isinstance(one, Malformed)), None)
        if strange is not None:
            msg = (
                f"{self._describe} must return from write nothing, or an ab.Malformed "
                f"for each item that it does not take; it returned {strange!r}; return "
                f"ab.Malformed(item, reason)"
            )
            raise OutputError(msg)
        return found


def open_external(
    op: Op, item_type: Any, job: str, possible: Sequence[int] | None = None
) -> ConnectorSink:
    """Open an external sink; `job` identifies all runs of one job."""
    match op.kind:
        case WriteSink(sink) if sink is not None:
            return ConnectorSink(op, sink, item_type, job, possible)
    msg = (
        f"{op.kind.label} needs the Spark engine; {op.name!r} ({op.site}) was run on "
        f"another; say on='spark', or use another sink"
    )
    raise EngineError(msg)
