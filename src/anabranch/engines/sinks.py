"""The sinks of a program, in the caller's process."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.connectors.external import NONE_YET, External, open_external
from anabranch.connectors.files.rolling_output import RollingWriter
from anabranch.connectors.files.writer import Writer, open_writer
from anabranch.graph.graph import Graph, Op
from anabranch.operators.sinks import EpochSink, ForEach, ToList, WriteFiles
from anabranch.runtime.ambient import Ambient
from anabranch.runtime.failures import OnError, failure_of, stop
from anabranch.runtime.ports import AbortedError

_HELD_ITEMS = 8192  # an epoch of an external sink, if nothing ends it earlier
_HELD_S = 0.1  # how long items wait for others to share their epoch


class Sinks:
    """All sinks of a program: items are delivered at once, files complete at the end.

    External sinks get the items between two flushes as an epoch.
    """

    def __init__(self, graph: Graph, on_error: OnError = stop) -> None:
        self._on_error = on_error
        self._writers: dict[str, Writer | RollingWriter] = {}
        self._takers: dict[str, Callable[[Any], Any]] = {}  # of items, one by one
        self._externals: dict[str, External] = {}
        self._held: dict[str, list[Any]] = {}
        self._given: dict[str, int] = {}  # number of items, also refused ones
        self._epoch = 0
        self._lock = threading.RLock()  # of pending items of external sinks
        self._closed = threading.Event()
        self._flusher: threading.Thread | None = None
        self._failed: BaseException | None = None
        self._abandoned = False  # nothing may be delivered any more
        self.delivered = {op.name: 0 for op in graph.sinks}
        self.under_way: dict[str, list[Any]] = {}  # batches being delivered
        self._ops = {op.name: op for op in graph.sinks}
        job = uuid.uuid4().hex[:12]
        try:
            for op in graph.sinks:
                self._open(op, graph[op.inputs[0].operator].type, job)
        except BaseException:
            self.abort()
            raise

    def _open(self, op: Op, item_type: Any, job: str) -> None:
        match op.kind:
            case ToList(items=items):
                items.clear()
                self._takers[op.name] = items.append
            case ForEach(function=function):
                self._takers[op.name] = function
            case WriteFiles():
                opener = RollingWriter if op.kind.rolls else open_writer
                writer = self._writers[op.name] = opener(op, item_type)
                self._takers[op.name] = writer.write
            case EpochSink():
                self._externals[op.name] = open_external(op, item_type, job, NONE_YET)
                self._held[op.name] = []
                self._given[op.name] = 0

    def deliver(self, op: Op, item: Any) -> None:
        """Deliver an item to its sink."""
        take = self._takers.get(op.name)
        if take is None:
            self._hold(op, item)
            return
        take(item)
        self.delivered[op.name] += 1

    def deliver_all(self, op: Op, items: Sequence[Any]) -> bool:
        """Write items to a file at once; False: deliver them one by one."""
        self.refuse_if_abandoned()
        writer = self._writers.get(op.name)
        if writer is None or not writer.write_all(items):
            return False
        self.delivered[op.name] += len(items)
        return True

    def _hold(self, op: Op, item: Any) -> None:
        with self._lock:
            self.refuse_if_abandoned()
            if self._failed is not None:
                raise self._failed
            held = self._held[op.name]
            held.append(item)
            if len(held) >= _HELD_ITEMS:
                self._flush(op)

    def flush_by_itself(self) -> None:
        """Flush periodically, for an engine that does not know when it is idle."""
        if self._externals:
            self._flusher = threading.Thread(
                target=Ambient().bind(self._keep_flushing), name="sinks", daemon=True
            )
            self._flusher.start()

    @property
    def threads(self) -> tuple[threading.Thread, ...]:
        """The threads that run user code."""
        return () if self._flusher is None else (self._flusher,)

    def _keep_flushing(self) -> None:
        try:
            while not self._closed.wait(_HELD_S):
                self.flush_all()
        except BaseException as error:  # noqa: BLE001 - raised where items come in
            self._failed = error

    def _flush(self, op: Op) -> None:
        held, self._held[op.name] = self._held[op.name], []
        if not held:
            return
        self._epoch += 1

        before = self._given[op.name]
        self._given[op.name] += len(held)
        places: dict[int, deque[int]] = {}  # numbers of each object

        def refuse(item: Any, error: Exception) -> None:
            if not places:
                for number, one in enumerate(held, before + 1):
                    places.setdefault(id(one), deque()).append(number)
            where = f"one of items {before + 1} to {before + len(held)}"
            if found := places.get(id(item)):  # else the sink names another object
                where = f"item {found.popleft()}"
            where = f"{where} of sink {op.name}"
            self._on_error(failure_of(op, item, where, error))

        taken = self._externals[op.name].write(self._epoch, held, refuse)
        self.delivered[op.name] += taken

    def flush_all(self) -> None:
        """Have all external sinks write their pending items."""
        with self._lock:
            if self._failed is not None:
                raise self._failed
            for name in self._externals:
                self._flush(self._ops[name])

    def close(self, *, publish: bool) -> None:
        """Publish the files, or remove them."""
        if not publish:
            self.abort()
            return
        self.flush_all()
        self._close()
        for writer in self._writers.values():
            writer.commit()

    def fail(self) -> None:
        """End after a failure: external sinks get the items before it, files are discarded."""
        with contextlib.suppress(Exception):  # one failure is enough
            self.flush_all()
        self.abort()

    def abort(self) -> None:
        """Remove unfinished files."""
        self._close()
        for writer in self._writers.values():
            writer.abort()

    def abandon(self, *, publish: bool) -> None:
        """Close while an operator has not returned: its outputs are dropped."""
        self._abandoned = True
        for items in self.under_way.values():
            items.clear()  # iteration over them ends
        self._takers = dict.fromkeys(self._takers, self.refuse_if_abandoned)
        self.close(publish=publish)

    def refuse_if_abandoned(self, _: Any = None) -> None:
        """Stop a thread that returns after the job was abandoned."""
        if self._abandoned:
            raise AbortedError

    def _close(self) -> None:
        self._closed.set()
        if self._flusher is not None:
            self._flusher.join()
        with contextlib.ExitStack() as closing:  # all of them, whichever fails
            for external in self._externals.values():
                closing.callback(external.close)
