"""The kernel of operators that follow the clock of their stream.

It holds the states of all keys, since they share one clock: an advance gives a turn to
every key that is due, in the order (time, key). An index by time finds these keys, so
that the cost of an advance depends on what it closes, not on what is held.
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from anabranch.graph.graph import Op
from anabranch.operators.clock import (
    Advance,
    InOrder,
    Scale,
    Timing,
    describe_scale,
    measure,
    scale_of,
    span_on,
)
from anabranch.operators.custom import Apply, ApplyKernel
from anabranch.operators.getters import attribute_getter, key_getter
from anabranch.operators.join import Join
from anabranch.operators.kernel import Kernel, Outputs, State, Turn
from anabranch.operators.timed import (
    NOTHING_NEW,
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
from anabranch.operators.windows import Aggregate
from anabranch.runtime.keys import in_key_order, key_bytes, key_rank
from anabranch.runtime.state import LentStates

TURN, FORGET = 0, 1  # at equal times a key has its turn before it expires


class LentKeys(LentStates):
    """An operator's states by key, some of which a holder may have.

    States that are `stored` elsewhere are found there again unless they have changed.
    """

    stored: ClassVar[bool] = False

    def __missing__(self, key: Any) -> State:
        if self._find_lent(key):
            return self[key]
        raise KeyError(key)

    def fetch(self, key: Any) -> State | None:
        """Return the state of a key that no holder has; None if there is none."""
        return dict.get(self, key)

    def find_saved(self, key: Any) -> Any | None:
        """Return when a key is due according to the store; None if it is not there."""
        return None

    def take_back(self, key: Any, state: State | None, saved: Any) -> None:
        """Take a state back from its holder; None if nothing is left of it."""
        if state is not None:
            dict.setdefault(self, key, state)


class ClockedKernel(Kernel):
    """Keeps its state as a dictionary of plain values, by name.

    `scale`, `clocks` (one per input) and `reached` describe the clock; all replicas see
    the same. Inputs in `idle` do not hold it back. `keys` has the states by key, and
    `last` the highest time of each key that may be forgotten. `queue` is the index: a
    heap of (time, turn or expiry, rank of the key, key). `due` and `ends` have the
    times at which each key is queued for its turn and its expiry: an entry with another
    time is stale, and one that comes too early is requeued with the key's current time.
    So there is usually one entry per key, however many items it gets. If an epoch keeps
    its states in a store, `more` fetches the keys due from there, and `rest` all keys.
    """

    stateful: ClassVar[bool] = True
    finishes = True
    ends_by_key = False
    handles_clock = True
    makes_clock = True
    forwards_clock = False

    def __init__(self, op: Op, timing: Timing, kernel: Callable[[], Kernel]) -> None:
        self.timed = _make_timed(op, timing, kernel)
        self.timing = timing
        self.inputs = len(op.inputs)
        plain = self.timed.kernel if isinstance(self.timed, PlainTimed) else None
        self.forwards_punctuation = plain is not None and plain.forwards_punctuation
        self.handles_punctuation = plain is not None and plain.handles_punctuation
        self.routed = plain is not None and plain.routed  # type: ignore[misc]
        self.keyed = bool(op.keyed_by)
        self.key_of = key_getter(op.keyed_by) if op.keyed_by else lambda _: ()
        self.time_of = attribute_getter(timing.on)
        self._now = Now(None, None)
        self.forgets = timing.forget_after is not None and self.keyed

    def open(self) -> State:
        keys = {} if self.keyed else {(): self.timed.open()}
        clocks = [None] * self.inputs
        names: dict[str, Any] = {"scale": None, "clocks": clocks, "reached": None}
        names |= {"idle": frozenset(), "keys": keys}
        return {**names, "last": {}, "due": {}, "ends": {}, "queue": []}

    def process(self, state: State, item: Any, port: int) -> Outputs:
        scale = state["scale"]
        if scale is None:
            scale = self._find_scale(state, item)
        clock = state["reached"]
        key = self.key_of(item)
        try:
            own = state["keys"][key]
        except KeyError:
            key_bytes(key)  # refuses what cannot be a key on any engine
            own = state["keys"][key] = self.timed.open()
        now = self._now
        if now.clock is not clock or now.scale is not scale:
            now = self._now = Now(clock, scale)
        outputs = self.timed.take(own, item, port, now)
        if outputs is NOTHING_NEW and not self.forgets:
            return ()
        if self.forgets:
            self._note_age(state, key, item)
        due = self._put_in_queue(state, key)
        if due is not None and clock is not None and due <= clock:
            outputs = [*outputs, *self._fire_past(state, key)]
        return outputs

    def _find_scale(self, state: State, item: Any) -> Scale:
        """Determine the time scale from the first item, unless an advance has set
        it.
        """
        on = getattr(self.timed, "on", None)
        if on is None and self.timing.forget_after is not None:
            on = self.timing.on
        if on is None:
            return None
        value = attribute_getter(on)(item)
        scale = scale_of(value)
        measure(value, scale, on)  # a value that is no time says nothing about others
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
        """Queue the expiry of a key, if it is known yet."""
        end = state["ends"][key] = self._end_of(state, key)
        heapq.heappush(state["queue"], (end, FORGET, key_rank(key), key))

    def _end_of(self, state: State, key: Any) -> Any:
        """Return the time at which a key expires."""
        after, unit = self.timing.forget_after, self.timing.unit
        assert after is not None  # noqa: S101 - only asked where keys are forgotten
        span = span_on(after, state["scale"], unit, "forget_after")
        return state["last"][key] + span

    def _put_in_queue(self, state: State, key: Any) -> Any | None:
        """Queue the next turn of a key; drop a key that holds nothing."""
        own = state["keys"][key]
        due = self.timed.find_due(own, state["scale"])
        noted = state["due"].get(key)
        if due is None:
            if self.keyed and key not in state["last"] and self.timed.is_empty(own):
                self._let_go(state, key)
        elif noted is None or due < noted:
            state["due"][key] = due
            heapq.heappush(state["queue"], (due, TURN, key_rank(key), key))
        return due

    def find_shared(self, state: State) -> Any:
        return state["scale"], [*state["clocks"], state["reached"]]

    def share(self, state: State, shared: Any) -> None:
        state["scale"], (*state["clocks"], state["reached"]) = shared

    def set_idle(self, state: State, ports: frozenset[int]) -> None:
        state["idle"] = ports

    def find_deciding(self, values: Iterable[Any]) -> list[int]:
        """Return the first and the last advance of each scale."""
        found: list[list[Any]] = []
        for index, sign in enumerate(values):
            if type(sign) is Advance:
                known = next((one for one in found if one[0] == sign.scale), None)
                if known is None:
                    found.append([sign.scale, index, index])
                else:
                    known[2] = index
        return sorted({one[place] for one in found for place in (1, 2)})

    def _let_go(self, state: State, key: Any) -> None:
        del state["keys"][key]
        state["due"].pop(key, None)

    def advance(self, state: State, sign: Any, port: int) -> Iterator[Turn]:
        if state["scale"] is None:
            state["scale"] = sign.scale
        elif state["scale"] != sign.scale:
            yield Turn(None, (), partial(_refuse_scale, sign.scale, state["scale"]))
            return
        state["clocks"][port] = sign.time
        clock = find_clock(state)
        if clock is None or clock == state["reached"]:
            return
        state["reached"] = clock
        yield from self._turns(state, clock)
        yield Turn(None, (), lambda: (Advance(clock, sign.scale),))

    def _turns(self, state: State, clock: Any) -> Iterator[Turn]:
        """Yield each turn up to the clock; a turn may cause further ones.

        A turn caused for an earlier time follows at once.
        """
        queue, latest = state["queue"], None
        if isinstance(state["keys"], LentKeys):
            state["keys"].settle()  # due states may be lent
        if "more" in state:
            state["more"](clock)
        while queue and queue[0][0] <= clock:
            entry = heapq.heappop(queue)
            latest = entry if latest is None else max(latest, entry)
            order = latest[0], latest[1], latest[3]
            time, what, _, key = entry
            if state["due" if what == TURN else "ends"].get(key) != time:
                continue  # it is stale
            if what == TURN:
                if self._is_due(state, key, time):
                    yield Turn(order, key, partial(self._turn, state, key, time))
            elif self._end_of(state, key) > time:
                self._await_end(state, key)
            else:
                for step in self._endings_of(state, key):
                    yield Turn(order, key, step)
                del state["last"][key], state["ends"][key]
                self._let_go(state, key)

    def _is_due(self, state: State, key: Any, time: Any) -> bool:
        """Tell whether a queued key is due; else requeue it."""
        del state["due"][key]
        if self.timed.find_due(state["keys"][key], state["scale"]) == time:
            return True
        self._put_in_queue(state, key)
        return False

    def _turn(self, state: State, key: Any, time: Any) -> Outputs:
        try:
            return self.timed.fire(state["keys"][key], time, state["scale"])
        finally:
            self._put_in_queue(state, key)

    def _fire_past(self, state: State, key: Any) -> list[Any]:
        """Return the outputs of the turns of a key that an item makes due at once.

        Other keys wait for the next advance: they may be in other replicas.
        """
        own, scale, clock = state["keys"][key], state["scale"], state["reached"]
        outputs: list[Any] = []
        try:
            while (due := self.timed.find_due(own, scale)) is not None and due <= clock:
                outputs += self.timed.fire(own, due, scale)
        finally:
            state["due"].pop(key, None)
            self._put_in_queue(state, key)
        return outputs

    def _endings_of(self, state: State, key: Any) -> Iterator[Callable[[], Outputs]]:
        """Yield the remaining calls for a key: its turns by time, then its end."""
        own, scale = state["keys"][key], state["scale"]
        while (due := self.timed.find_due(own, scale)) is not None:
            if self.timed.fires_at_end(own, due, scale):
                yield partial(self.timed.fire, own, due, scale)
        yield partial(self.timed.finish, own)

    def punctuation(self, state: State) -> Outputs:
        if "rest" in state:
            state["rest"]()
        own = [state["keys"][key] for key in in_key_order(state["keys"])]
        return [output for one in own for output in self.timed.punctuation(one)]

    def endings(self, key: Any, state: State) -> Iterator[Turn]:
        """Yield the open turns at the end, in the order (time, key); then each key
        ends.
        """
        keys, scale = state["keys"], state["scale"]
        queue = []
        for one, own in keys.items():
            due = self.timed.find_due(own, scale)
            if due is not None:
                queue.append((due, key_rank(one), one))
        heapq.heapify(queue)
        latest = None
        while queue:
            entry = heapq.heappop(queue)
            latest = entry if latest is None else max(latest, entry)
            time, rank, one = entry
            if self.timed.fires_at_end(keys[one], time, scale):
                fire = partial(self.timed.fire, keys[one], time, scale)
                yield Turn((0, latest[0], latest[2]), one, fire)
            due = self.timed.find_due(keys[one], scale)
            if due is not None:
                heapq.heappush(queue, (due, rank, one))
        for one in in_key_order(keys):
            yield Turn((1, one), one, partial(self.timed.finish, keys[one]))

    def finish(self, state: State) -> Outputs:
        return [output for turn in self.endings((), state) for output in turn.run()]


def _refuse_scale(clock: Scale, times: Scale) -> Outputs:
    msg = (
        f"the clock and the times must be of one kind; the clock is "
        f"{describe_scale(clock)}, the times are {describe_scale(times)}; map the "
        f"items first"
    )
    raise TypeError(msg)


def divide_state(
    state: State, count: int, find_part: Callable[[Any], int] | None
) -> list[State]:
    """Divide an operator's state by key among `count` replicas.

    Without keys all replicas get the same.
    """
    if find_part is None:
        return [copy.deepcopy(state) for _ in range(count)]
    parts = [
        {**state, **{name: {} for name in _BY_KEY}, "clocks": [*state["clocks"]]}
        for _ in range(count)
    ]
    for name in _BY_KEY:
        for key, value in state[name].items():
            parts[find_part(key)][name][key] = value
    for part in parts:
        part["queue"] = []
    for entry in state["queue"]:
        parts[find_part(entry[-1])]["queue"].append(entry)
    for part in parts:
        heapq.heapify(part["queue"])
    return parts


def join_states(states: Sequence[State]) -> State:
    """Join the states of all replicas of an operator.

    Before the first advance, only replicas that have had items know the scale.
    """
    scales = (one["scale"] for one in states)
    known = next((scale for scale in scales if scale is not None), None)
    joined = {**states[0], "scale": known}
    for name in _BY_KEY:
        joined[name] = {key: own for one in states for key, own in one[name].items()}
    joined["queue"] = [entry for one in states for entry in one["queue"]]
    heapq.heapify(joined["queue"])
    return joined


def take_out(state: State, find_part: Callable[[Any], int | None]) -> dict[int, State]:
    """Take the keys that move out of an operator's state; return them by replica.

    `find_part` gives the new replica of a key, or None if the key stays.
    """
    _settle(state)
    parts: dict[int, State] = {}

    def find(replica: int) -> State:
        empty: dict[str, Any] = {name: {} for name in _BY_KEY}
        made = {"scale": state["scale"], "queue": [], **empty}
        return parts.setdefault(replica, made)

    for name in _BY_KEY:
        own = state[name]
        moved = {key: to for key in own if (to := find_part(key)) is not None}
        for key, to in moved.items():
            find(to)[name][key] = own.pop(key)
    stays: list[Any] = []
    for entry in state["queue"]:
        to = find_part(entry[-1])
        queue = stays if to is None else find(to)["queue"]
        queue.append(entry)
    heapq.heapify(stays)
    state["queue"] = stays
    return parts


def put_in(state: State, part: State) -> None:
    """Add keys that were taken out of another replica's state."""
    _settle(state)
    if state["scale"] is None:  # it has had no item, and there was no advance
        state["scale"] = part["scale"]
    for name in _BY_KEY:
        state[name].update(part[name])
    state["queue"] += part["queue"]
    heapq.heapify(state["queue"])


def _settle(state: State) -> None:
    if isinstance(state["keys"], LentKeys):
        state["keys"].settle()


_BY_KEY = ("keys", "last", "due", "ends")


def find_clock(state: Mapping[str, Any]) -> Any | None:
    """Return the clock: the minimum over the inputs, once each of them has one.

    Idle inputs do not count; when they resume, the clock stays where it is.
    """
    clocks, idle, reached = state["clocks"], state["idle"], state["reached"]
    if idle:
        clocks = [clock for port, clock in enumerate(clocks) if port not in idle]
    if not clocks or None in clocks:
        return reached
    clock = min(clocks)
    return clock if reached is None or clock > reached else reached


def _make_timed(op: Op, timing: Timing, kernel: Callable[[], Kernel]) -> Timed:
    match op.kind:
        case Aggregate(window=window) as kind if window.gap is not None:
            return SessionWindows(kind)
        case Aggregate(window=window) as kind if window.time is not None:
            tumbling = window.every is None or window.every == window.time
            return TumblingWindows(kind) if tumbling else TimeWindows(kind)
        case Apply() as kind if kind.overrides("on_time"):
            return OperatorTimed(ApplyKernel(kind, copied=op.copied))
        case InOrder() as kind:
            return ItemsInOrder(kind)
        case Join() as kind if kind.within is not None:
            return PairsInTime(kind, timing)
    return PlainTimed(kernel())
