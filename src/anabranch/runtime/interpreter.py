"""The reference semantics of a graph: items go through it depth-first, one at a time.

Every engine is compared with this, so it does nothing clever. An operator's outputs are
complete before the first of them goes on; each then goes down every branch, the first
connected branch first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.operators.clock import Advance, IdlePorts, forward_advance, is_sign
from anabranch.operators.getters import key_getter
from anabranch.operators.kernel import Kernel, State
from anabranch.operators.make import make_kernel
from anabranch.operators.stateless import WINDOW, Punctuation
from anabranch.runtime.clocked import ClockedKernel
from anabranch.runtime.failures import END, OnError, failure_at_end, failure_of, stop
from anabranch.runtime.keys import in_key_order, key_bytes

Deliver = Callable[[Op, Any], None]  # what a sink does with an item


class Interpreter:
    """Runs a graph fed from outside: `push` items, then `finish` once."""

    def __init__(
        self, graph: Graph, deliver: Deliver, on_error: OnError = stop
    ) -> None:
        self._deliver = deliver
        self._on_error = on_error
        self._where = ""
        self._cells = {op.name: _Cell(op) for op in graph}
        for op in graph:
            cell = self._cells[op.name]
            cell.branches = [
                [
                    (self._cells[edge.consumer.operator], edge.consumer.port)
                    for edge in graph.out_edges(op.name)
                    if edge.producer.port == port
                ]
                for port in range(op.kind.outputs)
            ]

    def push(self, source: str, item: Any, where: str = "") -> None:
        """Send an item of a source through the graph."""
        self._where = where
        self._flow(self._cells[source], [item])

    def set_idle(self, ports: IdlePorts) -> None:
        """Set the inputs that do not hold clocks back for now."""
        for name, cell in self._cells.items():
            if cell.kernel is not None and cell.op.timing is not None:
                cell.kernel.set_idle(cell.states[()], ports.get(name, frozenset()))

    def finish(self, go_on: Callable[[], bool] = lambda: True) -> bool:
        """End the stream: operators finish one by one, producers first.

        `go_on` is asked before each key; returns whether all have finished.
        """
        self._where = END
        for cell in self._cells.values():
            if cell.kernel is None or not cell.kernel.stateful:
                continue
            for key in in_key_order(cell.states):
                if not go_on():
                    return False
                for turn in cell.kernel.endings(key, cell.states[key]):
                    self._flow(cell, self._end(cell, turn.key, turn.run))
        return True

    def _end(self, cell: _Cell, key: Any, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            self._on_error(failure_at_end(cell.op, key, error))
            return ()

    def _flow(self, cell: _Cell, outputs: Any) -> None:
        waiting: list[tuple[_Cell, int, Any]] = []
        cell.spread(outputs, waiting)
        while waiting:
            consumer, port, item = waiting.pop()
            if consumer.kernel is None:
                if not is_sign(item):
                    self._sink(consumer, item)
            elif isinstance(item, Punctuation):
                consumer.spread(self._at_punctuation(consumer), waiting)
            elif isinstance(item, Advance):
                consumer.spread(self._at_advance(consumer, item, port), waiting)
            else:
                consumer.spread(self._at_item(consumer, item, port), waiting)

    def _at_item(self, cell: _Cell, item: Any, port: int) -> Any:
        assert cell.kernel is not None  # noqa: S101
        try:
            state = cell.state(item)
            return cell.kernel.process(state, item, port)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            self._on_error(failure_of(cell.op, item, self._where, error))
            return ()

    def _at_punctuation(self, cell: _Cell) -> list[Any]:
        kernel = cell.kernel
        assert kernel is not None  # noqa: S101
        outputs: list[Any] = []
        if kernel.handles_punctuation:
            for key in in_key_order(cell.states):
                outputs += self._ask(cell, kernel.punctuation, (cell.states[key],))
        if kernel.forwards_punctuation:
            if kernel.routed:
                outputs += [(port, WINDOW) for port in range(len(cell.branches))]
            else:
                outputs.append(WINDOW)
        return outputs

    def _at_advance(self, cell: _Cell, sign: Advance, port: int) -> list[Any]:
        kernel = cell.kernel
        assert kernel is not None  # noqa: S101
        outputs: list[Any] = []
        if kernel.handles_clock:
            for turn in kernel.advance(cell.states[()], sign, port):
                outputs += self._ask(cell, turn.run, (), sign)
        outputs += forward_advance(kernel, sign, len(cell.branches))
        return outputs

    def _ask(
        self,
        cell: _Cell,
        step: Callable[..., Any],
        arguments: tuple[State, ...],
        sign: Punctuation | Advance = WINDOW,
    ) -> Any:
        try:
            return step(*arguments)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            self._on_error(failure_of(cell.op, sign, self._where, error))
            return ()

    def _sink(self, cell: _Cell, item: Any) -> None:
        try:
            self._deliver(cell.op, item)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            self._on_error(failure_of(cell.op, item, self._where, error))


class _Cell:
    """An operator with its kernel, its states and the consumers of its outputs."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.kernel: Kernel | None = None
        if not isinstance(op.kind, SourceKind | SinkKind):
            self.kernel = kernel_of(op)
        self.states: dict[Any, State] = {}
        if self.kernel is not None and self.kernel.stateful and not op.state_key:
            self.states[()] = _open(op, self.kernel)  # even if no item ever arrives
        self.branches: list[list[tuple[_Cell, int]]] = []
        self._key = key_getter(op.state_key) if op.state_key else None

    def state(self, item: Any) -> State:
        """Return the state for an item."""
        assert self.kernel is not None  # noqa: S101
        key = () if self._key is None else self._key(item)
        if key not in self.states:
            key_bytes(key)  # refuses what cannot be a key on any engine
            self.states[key] = self.kernel.open()
        return self.states[key]

    def spread(self, outputs: Any, waiting: list[tuple[_Cell, int, Any]]) -> None:
        """Push outputs for their consumers onto the stack, the first on top."""
        routed = self.kernel is not None and self.kernel.routed
        for output in reversed(outputs):
            port, item = output if routed else (0, output)
            for consumer, input_port in reversed(self.branches[port]):
                waiting.append((consumer, input_port, item))


def _open(op: Op, kernel: Kernel) -> State:
    """Return a fresh state; a failure here stops the job."""
    try:
        return kernel.open()
    except Exception as error:  # noqa: BLE001 - the user's setup may raise anything
        return stop(failure_of(op, None, "its setup", error))


def run_graph(graph: Graph, items: list[Any]) -> list[Any]:
    """Run a graph with one `Given` source and one sink on a list, to its end."""
    outputs: list[Any] = []
    interpreter = Interpreter(graph, lambda _, item: outputs.append(item))
    (given,) = graph.sources
    for item in items:
        interpreter.push(given.name, item)
    interpreter.finish()
    return outputs


def kernel_of(op: Op) -> Kernel:
    """Return the kernel of an operator."""
    if op.timing is not None:
        return ClockedKernel(op, op.timing, lambda: make_kernel(op, run_graph))
    return make_kernel(op, run_graph)
