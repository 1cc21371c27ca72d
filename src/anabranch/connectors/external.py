"""External sinks: they receive complete epochs of items, in order."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from anabranch.connectors.base import Malformed
from anabranch.errors import EngineError, OutputError
from anabranch.graph.graph import Op
from anabranch.operators.sinks import Committing, WriteSink
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


class ConnectorSink(External):
    """An open `ab.Sink`; a committed epoch is not written again.

    `possible` are the epochs that may be its last one, by what the job knows; None: any.
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
        self._op = op
        self._sink = sink
        name = f"{job}-{op.name}"
        self.last: Any = self._call("open", lambda: self._sink.open(name, item_type))
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
        try:
            refused = self._write(items)
            for row in refused:
                reason = row.reason
                refuse(
                    row.raw,
                    self._describe_refusal(row) if isinstance(reason, str) else reason,
                )
            self._call("prepare", lambda: self._sink.prepare(epoch))
            before_commit()
        except BaseException:
            with contextlib.suppress(OutputError):  # one failure is enough
                self._call("abort", lambda: self._sink.abort(epoch))
            raise
        self._call("commit", lambda: self._sink.commit(epoch))
        self.last = epoch
        return len(items) - len(refused)

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

    def _describe_refusal(self, row: Malformed) -> OutputError:
        return OutputError(
            f"{self._describe} does not take {row.raw!r}: {row.reason}; correct the "
            f"item, or leave such items out by on_error"
        )

    @property
    def _describe(self) -> str:
        name = type(self._sink).__name__
        return f"sink {self._op.name!r} ({name}, {self._op.site})"


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
