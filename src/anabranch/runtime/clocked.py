"""The kernel of an operator that follows the clock of its stream.

It holds the states of all keys, since the clock is that of all of them: an advance
gives every key whose time has come its turn, in the order (time, key). An index by time
finds these keys, so that an advance costs what it closes, not what is kept.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

from anabranch.graph.graph import Op
from anabranch.operators.clock import Advance, InOrder, Timing
from anabranch.operators.custom import Apply
from anabranch.operators.getters import attribute_getter, key_getter
from anabranch.operators.join import Join
from anabranch.operators.kernel import Kernel, Outputs, State
from anabranch.operators.timed import (
    ItemsInOrder,
    Now,
    OperatorTimed,
    PairsInTime,
    PlainTimed,
    SessionWindows,
    Timed,
    TimeWindows,
    TumblingWindows,
)
from anabranch.operators.timescale import (
    Scale,
    describe_scale,
    measure,
    scale_of,
    span_on,
)
from anabranch.operators.windows import Aggregate
from anabranch.runtime.keys import in_key_order, key_bytes, key_rank

_TURN, _FORGET = 0, 1  # at one time a key has its turn before it is forgotten


class ClockedKernel(Kernel):
    """The state is a dictionary of plain values, told apart by name.

    `scale` and `clocks` (one of each input) say where the clock stands, `keys` has the
    states by key, `last` the highest time of each key that may be forgotten, and `queue`
    is the index: a heap of (time, turn or forgetting, rank of the key, key). `due` has
    the time at which each key stands in it for its turn. An entry that comes too early
    is put back with the time that the key has by now, so that there is no more than one
    for each key as a rule, however many items it gets.
    """

    stateful: ClassVar[bool] = True
    finishes = True
    handles_clock = True
    makes_clock = True
    forwards_clock = False

    def __init__(self, op: Op, timing: Timing, kernel: Callable[[], Kernel]) -> None:
        self.timing = timing
        self.inputs = len(op.inputs)
        self.timed = _make_timed(op, timing, kernel)
        plain = self.timed.kernel if isinstance(self.timed, PlainTimed) else None
        self.forwards_punctuation = plain is not None and plain.forwards_punctuation
        self.handles_punctuation = plain is not None and plain.handles_punctuation
        self.routed = plain is not None and plain.routed  # type: ignore[misc]
        self.keyed = bool(op.keyed_by)
        self.key_of = key_getter(op.keyed_by) if op.keyed_by else lambda _: ()
        self.time_of = attribute_getter(timing.on)
        self.forgets = timing.forget_after is not None and self.keyed

    def open(self) -> State:
        keys = {} if self.keyed else {(): self.timed.open()}
        clocks = [None] * self.inputs
        names: dict[str, Any] = {"scale": None, "clocks": clocks, "keys": keys}
        return {**names, "last": {}, "due": {}, "queue": []}

    def process(self, state: State, item: Any, port: int) -> Outputs:
        scale = state["scale"]
        if scale is None:
            scale = self._find_scale(state, item)
        clocks = state["clocks"]
        clock = clocks[0] if len(clocks) == 1 else _clock(state)
        key = self.key_of(item)
        keys = state["keys"]
        if key not in keys:
            key_bytes(key)  # refuses what cannot be a key on any engine
            keys[key] = self.timed.open()
        own = keys[key]
        outputs = self.timed.take(own, item, port, Now(clock, scale))
        if self.forgets:
            self._note_age(state, key, item)
        due = self._put_in_queue(state, key)
        if due is not None and clock is not None and due <= clock:
            outputs = [*outputs, *self._all_due(state, clock)]
        return outputs

    def _find_scale(self, state: State, item: Any) -> Scale:
        """Find out what times are on the first item, if no advance has told it."""
        on = getattr(self.timed, "on", None)
        if on is None and self.timing.forget_after is not None:
            on = self.timing.on
        if on is None:
            return None
        value = attribute_getter(on)(item)
        scale = scale_of(value)
        measure(value, scale, on)  # what is no time tells nothing about others
        state["scale"] = scale
        return scale

    def _note_age(self, state: State, key: Any, item: Any) -> None:
        time = measure(self.time_of(item), state["scale"], self.timing.on)
        last = state["last"].get(key)
        if last is None:
            state["last"][key] = time
            self._await_end(state, key)
        elif time > last:
            state["last"][key] = time

    def _await_end(self, state: State, key: Any) -> None:
        """Note when a key is forgotten, as far as that is known by now."""
        entry = (self._end_of(state, key), _FORGET, key_rank(key), key)
        heapq.heappush(state["queue"], entry)

    def _end_of(self, state: State, key: Any) -> Any:
        """Return the time at which a key is forgotten."""
        after, unit = self.timing.forget_after, self.timing.unit
        assert after is not None  # noqa: S101 - only asked where keys are forgotten
        span = span_on(after, state["scale"], unit, "forget_after")
        return state["last"][key] + span

    def _put_in_queue(self, state: State, key: Any) -> Any | None:
        """Note when a key has its turn; let go of a key that holds nothing."""
        own = state["keys"][key]
        due = self.timed.find_due(own, state["scale"])
        noted = state["due"].get(key)
        if due is None:
            if self.keyed and key not in state["last"] and self.timed.is_empty(own):
                del state["keys"][key]
                state["due"].pop(key, None)
        elif noted is None or due < noted:
            state["due"][key] = due
            heapq.heappush(state["queue"], (due, _TURN, key_rank(key), key))
        return due

    def advance(
        self, state: State, sign: Any, port: int
    ) -> Iterator[Callable[[], Outputs]]:
        if state["scale"] is None:
            state["scale"] = sign.scale
        elif state["scale"] != sign.scale:
            msg = (
                f"the clock and the times must be of one kind; the clock is "
                f"{describe_scale(sign.scale)}, the times are "
                f"{describe_scale(state['scale'])}; map the items first"
            )
            raise TypeError(msg)
        before = _clock(state)
        state["clocks"][port] = sign.time
        clock = _clock(state)
        if clock is None or clock == before:
            return
        yield from self._steps(state, clock)
        yield lambda: self._spread_sign(Advance(clock, sign.scale))

    def _spread_sign(self, sign: Advance) -> Outputs:
        return (sign,)

    def _steps(self, state: State, clock: Any) -> Iterator[Callable[[], Outputs]]:
        """Yield a step for each turn up to the clock; it may bring about further ones."""
        queue = state["queue"]
        while queue and queue[0][0] <= clock:
            time, what, _, key = heapq.heappop(queue)
            if key not in state["keys"]:
                continue
            if what == _TURN:
                if state["due"].get(key) == time:
                    yield from self._turns_of(state, key, time)
            elif key in state["last"]:
                if self._end_of(state, key) > time:
                    self._await_end(state, key)
                    continue
                yield from self._endings_of(state, key)
                del state["keys"][key], state["last"][key]
                state["due"].pop(key, None)

    def _turns_of(
        self, state: State, key: Any, time: Any
    ) -> Iterator[Callable[[], Outputs]]:
        """Yield the turn of a key, unless it has a later one by now."""
        del state["due"][key]
        if self.timed.find_due(state["keys"][key], state["scale"]) == time:
            yield partial(self._turn, state, key, time)
        else:
            self._put_in_queue(state, key)

    def _turn(self, state: State, key: Any, time: Any) -> Outputs:
        try:
            return self.timed.fire(state["keys"][key], time, state["scale"])
        finally:
            self._put_in_queue(state, key)

    def _all_due(self, state: State, clock: Any) -> list[Any]:
        return [output for step in self._steps(state, clock) for output in step()]

    def _endings_of(self, state: State, key: Any) -> Iterator[Callable[[], Outputs]]:
        """Yield what is left to do for a key: its turns by time, then its end."""
        own, scale = state["keys"][key], state["scale"]
        while (due := self.timed.find_due(own, scale)) is not None:
            if self.timed.fires_at_end(own, due, scale):
                yield partial(self.timed.fire, own, due, scale)
        yield partial(self.timed.finish, own)

    def punctuation(self, state: State) -> Outputs:
        own = [state["keys"][key] for key in in_key_order(state["keys"])]
        return [output for one in own for output in self.timed.punctuation(one)]

    def endings(
        self, key: Any, state: State
    ) -> Iterator[tuple[Any, Callable[[], Outputs]]]:
        """Yield what is open at the end, in the order (time, key); then each key ends."""
        keys, scale = state["keys"], state["scale"]
        queue = []
        for one, own in keys.items():
            due = self.timed.find_due(own, scale)
            if due is not None:
                queue.append((due, key_rank(one), one))
        heapq.heapify(queue)
        while queue:
            time, rank, one = heapq.heappop(queue)
            if self.timed.fires_at_end(keys[one], time, scale):
                yield one, partial(self.timed.fire, keys[one], time, scale)
            due = self.timed.find_due(keys[one], scale)
            if due is not None:
                heapq.heappush(queue, (due, rank, one))
        for one in in_key_order(keys):
            yield one, partial(self.timed.finish, keys[one])

    def finish(self, state: State) -> Outputs:
        return [output for _, step in self.endings((), state) for output in step()]


def _clock(state: State) -> Any | None:
    """Return the clock: the least of the inputs' clocks, once each of them has one."""
    clocks = state["clocks"]
    return None if None in clocks else min(clocks)


def _make_timed(op: Op, timing: Timing, kernel: Callable[[], Kernel]) -> Timed:
    match op.kind:
        case Aggregate(window=window) as kind if window.gap is not None:
            return SessionWindows(kind)
        case Aggregate(window=window) as kind if window.time is not None:
            tumbling = window.every is None or window.every == window.time
            return TumblingWindows(kind) if tumbling else TimeWindows(kind)
        case Apply() as kind if kind.overrides("on_time"):
            return OperatorTimed(kind)
        case InOrder() as kind:
            return ItemsInOrder(kind)
        case Join() as kind if kind.within is not None:
            return PairsInTime(kind, timing)
    return PlainTimed(kernel())
