"""Demand-driven scheduling, as in Aurora: run whoever has most to do, a train at a time.

Operators are fused into boxes. A thread of the pool takes the box with the longest queue
that nobody runs, runs at most `batch` items through it, and looks again. A box is never
run by two threads at once, so order is kept; nothing is data-parallel.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from bench.hybrid.schedulers.stages import Row, Stage

Whole: TypeAlias = Callable[[list[Any]], list[Any]]  # a box that takes a train at once


class Box:
    """Fused operators with the queue in front of them; `whole` if they are compiled."""

    def __init__(self, stages: Sequence[Stage], whole: Whole | None = None) -> None:
        self.stages = stages
        self.whole = whole
        self.queue: deque[Any] = deque()
        self.busy = False

    def run(self, items: list[Any]) -> list[Any]:
        """Return what comes of some items, depth first."""
        if self.whole is not None:
            return self.whole(items) if items else []
        outputs: list[Any] = []
        stages = self.stages
        last = len(stages)

        def push(item: Any, place: int) -> None:
            if place == last:
                outputs.append(item)
                return
            for made in stages[place].process(item):
                push(made, place + 1)

        if last == 1:
            process = stages[0].process
            for item in items:
                outputs.extend(process(item))
            return outputs
        for item in items:
            push(item, 0)
        return outputs


def run(
    row: Row,
    boxes: Sequence[int],
    batch: int = 100,
    threads: int = 1,
    compiled: Sequence[Whole | None] = (),
) -> list[Any]:
    """Return what reaches the sink; `boxes` are the numbers of operators in each box.

    `compiled` are the boxes as functions of trains, if not called item by item.
    """
    return _Demand(row, boxes, batch, compiled).run(threads)


class _Demand:
    def __init__(
        self,
        row: Row,
        sizes: Sequence[int],
        batch: int,
        compiled: Sequence[Whole | None],
    ) -> None:
        stages = row.stages()
        assert sum(sizes) == len(stages)
        self.boxes: list[Box] = []
        for size, whole in zip(sizes, compiled or [None] * len(sizes), strict=True):
            self.boxes.append(Box(stages[:size], whole))
            stages = stages[size:]
        self.boxes[0].queue.extend(row.items)
        self.batch = batch
        self.results: list[Any] = []
        self.ended = 0  # boxes from the left that have nothing left to come
        self.change = threading.Condition()

    def run(self, threads: int) -> list[Any]:
        pool = [threading.Thread(target=self._work) for _ in range(threads)]
        for thread in pool:
            thread.start()
        for thread in pool:
            thread.join()
        return self.results

    def _work(self) -> None:
        while True:
            with self.change:
                place = self._chosen()
                while place is None:
                    if self.ended == len(self.boxes):
                        return
                    self.change.wait()
                    place = self._chosen()
                box = self.boxes[place]
                box.busy = True
                count = min(self.batch, len(box.queue))
                items = [box.queue.popleft() for _ in range(count)]
            outputs = box.run(items)
            with self.change:
                self._pass_on(place, outputs)
                box.busy = False
                self._end()
                self.change.notify_all()

    def _chosen(self) -> int | None:
        waiting = [
            (len(box.queue), place)
            for place, box in enumerate(self.boxes)
            if box.queue and not box.busy
        ]
        return max(waiting)[1] if waiting else None

    def _pass_on(self, place: int, outputs: list[Any]) -> None:
        if place + 1 < len(self.boxes):
            self.boxes[place + 1].queue.extend(outputs)
        else:
            self.results.extend(outputs)

    def _end(self) -> None:
        """Let boxes finish that nothing will come to any more, from the left."""
        while self.ended < len(self.boxes):
            box = self.boxes[self.ended]
            if box.queue or box.busy:
                return
            for number, stage in enumerate(box.stages):
                rest = Box(box.stages[number + 1 :])
                self._pass_on(self.ended, rest.run(stage.finish()))
            self.ended += 1
