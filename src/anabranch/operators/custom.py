"""User-written stateful operators: `scan` and `Operator` classes."""

from __future__ import annotations

import copy
import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from anabranch.errors import OperatorError
from anabranch.graph.graph import Op
from anabranch.graph.kind import (
    ANY,
    ONE,
    Kind,
    Traits,
    UserCode,
    keep_by_key,
    keep_one_state,
)
from anabranch.operators.clock import measure, scale_of
from anabranch.operators.copied import copy_output
from anabranch.operators.kernel import Kernel, Outputs, State
from anabranch.operators.stateless import describe_function, finite


class Operator:
    """The base class of stateful operators; its attributes are its state.

    On a keyed stream each key has its own instance, elsewhere there is one.

    >>> class Count(Operator):
    ...     def setup(self):
    ...         self.n = 0
    ...     def process(self, item):
    ...         self.n += 1
    ...         yield (self.n, item)
    >>> import anabranch as ab
    >>> out = ab.from_iterable("ab").apply(Count).to_list()
    >>> _ = ab.run(out, on="sequential")
    >>> out.items
    [(1, 'a'), (2, 'b')]
    """

    def setup(self) -> None:
        """Prepare the state; called once, before the first item."""

    def process(self, item: Any) -> Iterable[Any]:
        """Return the outputs for one item."""
        msg = f"{type(self).__name__} must define process(self, item)"
        raise TypeError(msg)

    def punctuation(self) -> Iterable[Any]:
        """Return the outputs at a window punctuation (which is passed on
        afterwards).
        """
        return ()

    def finish(self) -> Iterable[Any]:
        """Return the outputs at the end of the stream."""
        return ()

    def on_time(self, time: Any) -> Iterable[Any]:
        """Return the outputs at a time requested by `wake_at`."""
        return ()

    def wake_at(self, time: Any, *, at_end: bool = True) -> None:
        """Request a call of `on_time(time)` once the clock of the stream has reached
        it.

        With `at_end=False` it is not called if the stream ends earlier. Requesting a
        time twice has no further effect, except that the last `at_end` counts. A time of
        another kind than the clock's is a failure.
        """
        if type(self).on_time is Operator.on_time:
            msg = (
                f"{type(self).__name__} must define on_time(self, time) to be woken by "
                f"the clock of its stream (see event_time)"
            )
            raise TypeError(msg)
        scale = scale_of(time)
        number = measure(time, scale, "wake_at(time)")
        queue, timers = timer_queue_of(self), timers_of(self)
        if time not in timers:
            heapq.heappush(queue, (number, str(scale), time))
        timers[time] = at_end


def timers_of(operator: Operator) -> dict[Any, bool]:
    """Return the times at which an operator is to be woken; True: at the end too."""
    timers: dict[Any, bool] = operator.__dict__.setdefault("_timers", {})
    return timers


def timer_queue_of(operator: Operator) -> list[tuple[Any, str, Any]]:
    """Return a heap of the same times: the number, the scale and the time itself.

    States of older checkpoints do not have it.
    """
    queue: list[tuple[Any, str, Any]] | None = operator.__dict__.get("_timer_queue")
    if queue is None:
        scales = ((time, scale_of(time)) for time in timers_of(operator))
        queue = sorted((measure(t, scale, ""), str(scale), t) for t, scale in scales)
        operator.__dict__["_timer_queue"] = queue
    return queue


@dataclass(frozen=True, eq=False)
class Scan(Kind):
    """`step(state, item) -> (state, output)`: one output per item."""

    step: Callable[[Any, Any], tuple[Any, Any]]
    initial: Any
    label: ClassVar[str] = "scan"
    keyable: ClassVar[bool] = True

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return (UserCode("step", self.step),)

    def traits(self, op: Op) -> Traits:
        return keep_by_key(
            op, "scan carries a state along", ONE, punctuation="preserving"
        )


@dataclass(frozen=True, eq=False)
class Apply(Kind):
    """A user's `Operator` class, with its constructor arguments."""

    operator: type[Operator]
    arguments: tuple[Any, ...] = ()
    keywords: tuple[tuple[str, Any], ...] = ()
    label: ClassVar[str] = "apply"
    keyable: ClassVar[bool] = True

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        return (UserCode("operator", self.operator),)

    def instance(self) -> Operator:
        """Return a fresh instance, set up."""
        made = self.operator(*self.arguments, **dict(self.keywords))
        made.setup()
        return made

    def overrides(self, method: str) -> bool:
        """Tell whether the user's class defines `method` itself."""
        return getattr(self.operator, method, None) is not getattr(Operator, method)

    def traits(self, op: Op) -> Traits:
        name = self.operator.__name__
        if op.state_key and self.overrides("punctuation"):
            text = (
                f"{name}.punctuation() may give results of several keys at one "
                "punctuation, which stand in the order of the keys"
            )
            return keep_one_state(op, text, ANY, punctuation="preserving")
        what = f"{name} has its attributes as state"
        return keep_by_key(op, what, ANY, punctuation="preserving")


class ScanKernel(Kernel):
    """Keeps as state a list of one: the user's value."""

    stateful = True

    def __init__(self, kind: Scan, *, copied: bool = False) -> None:
        self.step = kind.step
        self.initial = kind.initial
        self._copied = copied

    def open(self) -> State:
        # Each key starts from its own copy, even if `step` changes it in place.
        return [copy.deepcopy(self.initial)]

    def process(self, state: State, item: Any, port: int) -> Outputs:
        result = self.step(state[0], item)
        check_pair(result, self.step)
        state[0], output = result
        return (copy_output(output) if self._copied else output,)


def check_pair(result: Any, step: Any) -> None:
    """Refuse the result of a `step` unless it is a pair of state and output.

    A list of two is no pair: a step that returns only its state, if that is a list,
    would be unpacked silently.

    >>> check_pair((1, "one"), None)
    """
    if isinstance(result, tuple) and len(result) == 2:  # noqa: PLR2004
        return
    what = type(result).__name__
    if isinstance(result, tuple):
        what = f"tuple of {len(result)}"
    msg = (
        f"step must return a tuple of two, (state, output); got a {what}, "
        f"{result!r}; see {describe_function(step)}"
    )
    raise OperatorError(msg)


class ApplyKernel(Kernel):
    """Keeps as state the user's instance."""

    stateful = True

    def __init__(self, kind: Apply, *, copied: bool = False) -> None:
        self.kind = kind
        self._copied = copied
        self.handles_punctuation = kind.overrides("punctuation")
        self.finishes = kind.overrides("finish")

    def open(self) -> State:
        return self.kind.instance()

    def process(self, state: Operator, item: Any, port: int) -> Outputs:
        return self.collect(state.process(item), state.process)

    def punctuation(self, state: Operator) -> Outputs:
        return self.collect(state.punctuation(), state.punctuation)

    def finish(self, state: Operator) -> Outputs:
        return self.collect(state.finish(), state.finish)

    def collect(self, given: Any, method: Callable[..., Any]) -> Outputs:
        """Return the outputs of a method as a list."""
        return finite(given, method, copied=self._copied)
