"""What comes into a unit in a task, and how its programs take it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from anabranch.engines.spark.exits import Exits
from anabranch.engines.spark.handing import Fed
from anabranch.engines.spark.layout import Unit
from anabranch.engines.spark.pieces import read_piece
from anabranch.engines.spark.spec import Job
from anabranch.engines.spark.task import Share
from anabranch.engines.spark.wire import Batch, decode, in_order, interleaved
from anabranch.graph.graph import Edge
from anabranch.runtime.failures import OnError
from anabranch.runtime.fusion import Entry


class UnitInputs:
    """Reads what is for a unit: pieces of sources, and blobs from other tasks."""

    def __init__(self, job: Job, unit: Unit, exits: Exits, on_error: OnError) -> None:
        self._pickler = job.pickler
        self._unit = unit
        self._layout = job.spec.layout
        self._exits = exits
        self._on_error = on_error

    def streams(
        self, share: Share, received: list[list[pa.Buffer]]
    ) -> tuple[dict[str, int], list[Batch]]:
        """Return what came in, one batch per entry, and how much each source gave."""
        graph, pickler = self._layout.graph, self._pickler
        several = len(graph.sources) > 1
        order = {op.name: index for index, op in enumerate(graph.sources)}
        read: dict[str, int] = {}
        streams = []
        for entry, blobs in zip(self._unit.entries, received, strict=True):
            if isinstance(entry, Edge):
                form = self._exits.form(entry.producer.operator)
                batches = [decode(blob, form, pickler) for blob in blobs]
            else:
                batches = [
                    read_piece(piece, graph[entry], pickler, self._on_error)
                    for piece in share.pieces
                    if piece.source == entry
                ]
                for batch in batches:
                    if several:
                        batch.positions.append(np.full(len(batch), order[entry]))
                read[entry] = sum(map(len, batches))
            streams.append(in_order(batches))
        return read, streams

    def along(
        self, between: tuple[Edge, ...], chunk: list[tuple[int, pa.Buffer]]
    ) -> list[Batch]:
        """Return what a chunk of the first half gave, one batch for each stream."""
        streams = []
        for number, edge in enumerate(between):
            form = self._exits.form(edge.producer.operator)
            blobs = [blob for stream, blob in chunk if stream == number]
            batches = [decode(blob, form, self._pickler) for blob in blobs]
            streams.append(in_order(batches))
        return streams

    def fed(
        self, streams: list[Batch], entries_of: tuple[Entry, ...] | None = None
    ) -> Iterator[Fed]:
        """Return what came in as a program takes it: chunks of items in order."""
        if not any(map(len, streams)):
            return
        if len(streams) == 1:
            for chunk in streams[0].chunks():
                yield chunk.items, [c.tolist() for c in chunk.positions], None
            return
        form = self._layout.positions
        width = max(
            form.on(entry) if isinstance(entry, Edge) else form.after[entry]
            for entry in entries_of or self._unit.entries
        )
        items, columns, entries = interleaved(streams, width)
        yield items, [column.tolist() for column in columns], entries
