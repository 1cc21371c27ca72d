"""One thread for every operator; the operating system decides who runs when.

As in section 3 of the paper: an operator takes one item from its queue, does its work
and puts what comes of it into the queue of the next. A thread without items sleeps.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any

from bench.hybrid.schedulers.stages import Row, Stage

END = object()


def run(row: Row) -> list[Any]:
    """Return what reaches the sink."""
    stages = row.stages()
    queues: list[SimpleQueue[Any]] = [SimpleQueue() for _ in range(len(stages) + 1)]
    threads = [
        threading.Thread(target=_work, args=(stage, queues[n], queues[n + 1]))
        for n, stage in enumerate(stages)
    ]
    for thread in threads:
        thread.start()
    put = queues[0].put
    for item in row.items:
        put(item)
    put(END)
    results: list[Any] = []
    get = queues[-1].get
    while (item := get()) is not END:
        results.append(item)
    for thread in threads:
        thread.join()
    return results


def _work(stage: Stage, came: SimpleQueue[Any], goes: SimpleQueue[Any]) -> None:
    get, put, process = came.get, goes.put, stage.process
    while (item := get()) is not END:
        for output in process(item):
            put(output)
    for output in stage.finish():
        put(output)
    put(END)
