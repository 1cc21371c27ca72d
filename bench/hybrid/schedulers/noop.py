"""No-op padding: every operator gives exactly one message for each it takes.

An operator that has nothing to give sends a message that says so, and those behind it
pass it on without doing anything. Rates are then fixed, so all is fused and scheduled
ahead; the last operators are data-parallel, their replicas getting messages by turns,
whether there is work in them or not.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.hybrid.schedulers.stages import Row, Stage

NOTHING = object()


def run(row: Row, batch: int = 100, replicas: int = 1, shared: int = 1) -> list[Any]:
    """Return what reaches the sink; replicas share the last operators."""
    every = row.stages()
    stages, last = every[:-shared], every[-shared:]
    results: list[Any] = []
    with ThreadPoolExecutor(replicas) as pool:
        for start in range(0, len(row.items), batch):
            messages: list[Any] = row.items[start : start + batch]
            for stage in stages:
                messages = _through(stage, messages)
            results += _shared(last, messages, replicas, pool)
    for number, stage in enumerate(every):
        rest: list[Any] = stage.finish()
        for later in every[number + 1 :]:
            rest = _through(later, rest)
        results += rest
    return [message for message in results if message is not NOTHING]


def _through(stage: Stage, messages: list[Any]) -> list[Any]:
    process = stage.process
    return [
        message if message is NOTHING else _padded(process(message))
        for message in messages
    ]


def _padded(outputs: Any) -> Any:
    if not outputs:
        return NOTHING
    if len(outputs) > 1:
        msg = f"an operator gave {len(outputs)} outputs; it is padded to one"
        raise ValueError(msg)
    return outputs[0]


def _shared(
    stages: list[Stage], messages: list[Any], replicas: int, pool: ThreadPoolExecutor
) -> list[Any]:
    def through(share: list[Any]) -> list[Any]:
        for stage in stages:
            share = _through(stage, share)
        return share

    if replicas == 1:
        return through(messages)
    shares = [messages[number::replicas] for number in range(replicas)]
    done = list(pool.map(through, shares))
    merged: list[Any] = [NOTHING] * len(messages)
    for number, share in enumerate(done):
        merged[number::replicas] = share
    return merged
