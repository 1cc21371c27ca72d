"""Delivers the items of an epoch to external sinks, from a worker.

Tasks write their items for such a sink to files, which their reports name. When the
epoch is committed, one task per sink reads the files in the order of positions and
writes them to the sink, in one transaction with the epoch's number. So no item passes
through the driver. A task that is lost, or a driver that is killed, leaves the files;
a process that delivers them again finds the number in the sink.

The files are in the checkpoint, or in the scratch directory of a job on one machine::

    deliveries/N-TURN-ATTEMPT-REPLICA-SINK.items  items, as one blob
    deliveries/N-TURN-SINK-refused.pickle         the failures of items that it refused

If a job goes on after failures, the latter is there before the sink commits, also if there are
none: so one that is gone is not taken for one without failures.
"""

from __future__ import annotations

import contextlib
import copy
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import pyarrow as pa

from anabranch.connectors.external import ConnectorSink
from anabranch.connectors.files.arrow_items import form_of, to_items, without_codes
from anabranch.connectors.storage import Location, locate
from anabranch.epochs.checkpoint.files import durably
from anabranch.epochs.checkpoint.seal import Seal, describe_damage
from anabranch.epochs.faults import reach
from anabranch.epochs.state.buckets import Stamp
from anabranch.epochs.task import (
    DeliverItems,
    EpochTask,
    ExternalSinks,
    WorkerJob,
    WrittenPart,
)
from anabranch.epochs.transport.pickle import Pickler
from anabranch.epochs.wire import WireBatch, decode, encode, end_to_end, in_order
from anabranch.errors import FencedError, OutputError
from anabranch.graph.graph import Graph
from anabranch.logs import log, logger_of
from anabranch.operators.sinks import is_unordered
from anabranch.runtime.batch import TableItems
from anabranch.runtime.failures import Failure, failure_of, stop, travelling, user_line

_LOGGER = logger_of("epochs")
_PICKLE = b"\x80"  # how a pickle begins


@dataclass(frozen=True)
class Delivered:
    """The number of items that a sink has accepted, and the failures of the others."""

    accepted: int
    failures: tuple[Failure, ...] = ()


class ItemWriter:
    """Writes a task's items for external sinks to files."""

    def __init__(self, job: WorkerJob, external: ExternalSinks) -> None:
        self._job = job
        self._directory = locate(external.directory)

    def write(
        self, sink: str, batch: WireBatch, task: EpochTask, channel: int
    ) -> WrittenPart:
        """Write the items of a replica; the file counts if a report names it."""
        spec, stamp = self._job.spec, task.attempt.stamp
        number = spec.layout.graph.names.index(sink)
        name = f"{stamp.epoch:09}-{stamp.turn}-{stamp.attempt}-{channel}-{number}.items"
        blob = encode(batch, _Lasting(self._job.pickler))
        path = self._directory / name
        if spec.checkpoint is None:
            path.write_bytes(blob)
        else:
            with durably(path) as file:
                file.write(blob)
        reach("written", stamp.epoch)
        return WrittenPart(sink, name, len(batch), spec.seal.digest(memoryview(blob)))


class _Lasting(Pickler):
    """Pickles items as states are: another run may have to read them."""

    def __init__(self, pickler: Pickler) -> None:
        vars(self).update(vars(pickler))

    def dumps(self, value: Any) -> bytes:
        return self.dumps_state(value)


def read_items(
    directory: Location,
    files: Iterable[WrittenPart],
    graph: Graph,
    pickler: Pickler,
    seal: Seal,
) -> Sequence[Any]:
    """Return the items of an epoch for a sink; as a table if they are one.

    They are in order, unless the sink takes any.
    """
    batches = []
    join = in_order
    for one in files:
        if is_unordered(graph[one.sink]):
            join = end_to_end
        path = directory / one.file
        try:
            data = path.read_bytes()
        except OSError as error:
            raise describe_damage(path, error) from error
        seal.check(path, data, one.digest)
        kind = graph[graph[one.sink].inputs[0].operator].type
        form = None if kind is None else form_of(kind)
        batches.append(decode(pa.py_buffer(data), form, pickler))
    return items_of(join(batches))


def items_of(batch: WireBatch) -> Sequence[Any]:
    """Return the items of a batch; as a table if they are one."""
    if batch.table is None or batch.form is None:
        return batch.items
    table, form = without_codes(batch.table), batch.form
    return TableItems(
        table, lambda start, end: to_items(table.slice(start, end - start), form)
    )


def locate_refused(
    directory: Location, stamp: Stamp, graph: Graph, sink: str
) -> Location:
    """Return the file of the failures that a sink had in an epoch."""
    number = graph.names.index(sink)
    return directory / f"{stamp.epoch:09}-{stamp.turn}-{number}-refused.pickle"


def write_refused(
    path: Location, failures: Sequence[Failure], pickler: Pickler, seal: Seal
) -> None:
    """Store the failures that a sink had in an epoch, with a digest in front."""
    data = pickler.dumps_state(tuple(failures))
    with durably(path) as file:
        file.write(seal.digest(path.name.encode() + data).encode() + b"\n" + data)


def read_refused(
    path: Location, pickler: Pickler, seal: Seal, *, noted: bool
) -> tuple[Failure, ...]:
    """Return the failures of an epoch that a sink has already; most have none.

    Without `noted`, no file says so too. Nothing is unpickled before its digest was
    verified; earlier releases wrote none.
    """
    if not path.exists():
        if noted:
            why = "it is gone, and only it says which items its sink has refused"
            raise describe_damage(path, why)
        return ()
    data, digest = path.read_bytes(), None
    if not data.startswith(_PICKLE):
        found, _, data = data.partition(b"\n")
        digest = found.decode("ascii", "replace")
    seal.check(path, path.name.encode() + data, digest)
    failures: tuple[Failure, ...] = pickler.loads(data)
    return failures


def list_described(parts: Iterable[WrittenPart]) -> list[str]:
    """Return the descriptions of parts, in the order of their items."""
    ordered = sorted(parts, key=attrgetter("file"))
    return [one.described for one in ordered if one.described is not None]


class Deliverer:
    """Delivers epochs to external sinks, which stay open from epoch to epoch."""

    def __init__(self, job: WorkerJob) -> None:
        self._job = job
        self._graph = job.spec.layout.graph
        self._open: dict[str, tuple[int, ConnectorSink]] = {}  # epoch it was used for

    def deliver(self, sink: str, work: DeliverItems) -> Delivered:
        """Deliver the items of an epoch to a sink.

        An open sink is used again if nothing can have happened since: no other worker
        has delivered, and this is the first try. It may be fenced nevertheless, by a
        second attempt of an earlier task; then it is opened again.
        """
        spec = self._job.spec
        assert spec.external is not None  # noqa: S101 - else nothing is delivered here
        directory = locate(spec.external.directory)
        files, graph, pickler = work.files[sink], self._graph, self._job.pickler
        items: Sequence[Any] = ()
        if sink not in spec.external.in_parts:
            items = read_items(directory, files, graph, pickler, spec.seal)
        reach("delivering", work.stamp.epoch)
        done: Delivered | None = None
        if (opened := self._take_open(sink, work)) is not None:
            with contextlib.suppress(FencedError):
                done = self._write(sink, opened, work, items, directory)
        if done is None:
            opened = self._open_sink(sink, spec.external)
            done = self._write(sink, opened, work, items, directory)
        reach("sent", work.stamp.epoch)
        for file in work.done:
            (directory / file).unlink(missing_ok=True)
        return done

    def _take_open(self, sink: str, work: DeliverItems) -> ConnectorSink | None:
        used, opened = self._open.pop(sink, (0, None))
        if opened is None or (used == work.before.get(sink) and not work.again):
            return opened
        self._close(sink, opened)
        return None

    def close(self) -> None:
        """Close the sinks that are open here."""
        for sink in list(self._open):
            _, opened = self._open.pop(sink)
            self._close(sink, opened)

    def _open_sink(self, sink: str, external: ExternalSinks) -> ConnectorSink:
        op = self._graph[sink]
        item_type = self._graph[op.inputs[0].operator].type
        closed = copy.copy(external.sinks[sink])  # which may be opened again
        return ConnectorSink(op, closed, item_type, external.job)

    def _close(self, sink: str, opened: ConnectorSink) -> None:
        """Close a sink; it has its epochs, so a failure is no failure of the job."""
        try:
            opened.close()
        except OutputError as error:
            log(_LOGGER, logging.WARNING, "close failed", sink=sink, error=str(error))

    def _write(
        self,
        sink: str,
        opened: ConnectorSink,
        work: DeliverItems,
        items: Sequence[Any],
        directory: Location,
    ) -> Delivered:
        """Write the items, unless the sink has them.

        The failures of refused items are stored before the sink commits the rest:
        the process that finds the epoch committed reports them.
        """
        op, pickler, epoch = self._graph[sink], self._job.pickler, work.stamp.epoch
        spec = self._job.spec
        if spec.external is not None and sink in spec.external.in_parts:
            return self._commit_parts(sink, opened, work)
        noted = spec.resilient and spec.checkpoint is not None
        refused = locate_refused(directory, work.stamp, self._graph, sink)
        if opened.has(epoch):
            failures = read_refused(refused, pickler, spec.seal, noted=noted)
            self._open[sink] = epoch, opened
            return Delivered(len(items) - len(failures), failures)
        found: list[Failure] = []

        def refuse(item: Any, error: Exception) -> None:
            failure = failure_of(op, item, name_item(epoch, sink), error)
            if not spec.resilient:
                stop(failure)
            told = replace(failure, raised_at=user_line(error))
            found.append(travelling(told, pickler.takes))

        def store_failures() -> None:
            if found or noted:
                write_refused(refused, found, pickler, spec.seal)
            reach("prepared", epoch)

        try:
            accepted = opened.write(epoch, items, refuse, store_failures)
        except BaseException:
            self._close(sink, opened)
            raise
        self._open[sink] = epoch, opened
        return Delivered(accepted, tuple(found))

    def _commit_parts(
        self, sink: str, opened: ConnectorSink, work: DeliverItems
    ) -> Delivered:
        """Have a sink commit the parts of an epoch, unless it has them."""
        files = work.files[sink]
        reach("prepared", work.stamp.epoch)
        try:
            opened.commit_parts(work.stamp.epoch, list_described(files))
        except BaseException:
            self._close(sink, opened)
            raise
        self._open[sink] = work.stamp.epoch, opened
        return Delivered(sum(one.items for one in files))


def name_item(epoch: int, sink: str) -> str:
    """Return where an item is that a sink has refused."""
    return f"an item of epoch {epoch}, sink {sink}"
