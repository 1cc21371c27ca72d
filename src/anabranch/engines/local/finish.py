"""The end of the stream: operators finish one by one, as the sequential engine has it.

Everything has gone through and all threads are at rest, so the whole program is run
once more as one piece, by one thread, on the states that all channels left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anabranch.graph.graph import Graph, Op
from anabranch.graph.sinks import SinkKind
from anabranch.graph.sources import Source
from anabranch.runtime.batch import Batch
from anabranch.runtime.element import Deliver
from anabranch.runtime.failures import OnError, failure_of
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.kernels.kernel import Kernel
from anabranch.runtime.keys import in_key_order
from anabranch.runtime.program import Program
from anabranch.runtime.punctuation import WINDOW
from anabranch.runtime.state import States

_END = "the end of the stream"


def finish(
    graph: Graph,
    states: Mapping[str, dict[Any, Any]],
    deliver: Callable[[Op], Deliver],
    on_error: OnError,
) -> None:
    """Let every operator finish, producers first, its keys in their order."""
    talkers = [op.name for op in graph if _has_last_word(op)]
    if not talkers:
        return
    states = {name: _open(graph[name], own) for name, own in states.items()}
    program = Program(
        graph,
        graph.names,
        talkers,
        states=states,
        on_error=on_error,
        describe=lambda _: _END,
    )
    sinks = {edge: deliver(graph[edge.consumer.operator]) for edge in program.exits}
    for entry, name in enumerate(talkers):
        kernel = kernel_of(graph[name])
        for key in in_key_order(states[name]):
            outputs = _last_words(graph[name], kernel, states[name][key], on_error)
            program.run(outputs, None, [entry] * len(outputs))
            for edge, left in program.exits.items():
                if left.items:
                    sinks[edge](Batch(left.items[:]))
                    left.clear()


def _open(op: Op, own: dict[Any, Any]) -> States:
    """Return states that new keys can join: the last outputs may bring some."""
    made = States(op, kernel_of(op), fresh=False)
    made.update(own)
    return made


def _has_last_word(op: Op) -> bool:
    if isinstance(op.kind, Source | SinkKind):
        return False
    kernel = kernel_of(op)
    return kernel.stateful and type(kernel).finish is not Kernel.finish


def _last_words(op: Op, kernel: Kernel, state: Any, on_error: OnError) -> list[Any]:
    try:
        return list(kernel.finish(state))
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
        on_error(failure_of(op, WINDOW, _END, error))
        return []
