"""The profiler in a worker: it watches the thread that runs a task."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Self

from anabranch.engines.spark.exits import Exits
from anabranch.engines.spark.task import EpochTask
from anabranch.engines.spark.unit_states import UnitStates
from anabranch.metrics.samples import Route, ThreadSamples
from anabranch.runtime.profile import Sampler, Watched
from anabranch.runtime.profile_alone import OwnSampler, can_look_at_itself
from anabranch.runtime.program import Program

# What happens after the last operator, and behind a cut if there is one.
LEAVING = (Exits.leave.__code__, Exits.write.__code__, UnitStates.save.__code__)


class Watch:
    """Watches the present thread in its block, if the task asks for it.

    `operators` are those that the thread runs; it is at the last of them while it sends
    and writes what they gave.
    """

    def __init__(
        self,
        task: EpochTask,
        operators: Sequence[str],
        programs: Callable[[EpochTask], list[Program]],
    ) -> None:
        self._sampler: Sampler | OwnSampler | None = None
        self._seen: tuple[ThreadSamples, ...] = ()
        if not (task.profiling and operators):
            return
        whole: Route = tuple(operators)

        def at_the_end(_: FrameType) -> Route:
            return whole

        watched = Watched(
            threading.current_thread(),
            whole[0],
            programs(task),
            elsewhere=dict.fromkeys(LEAVING, at_the_end),
            task=threading.get_native_id(),  # workers are forked
        )
        alone = can_look_at_itself()
        self._sampler = OwnSampler(watched) if alone else Sampler([watched])

    def __enter__(self) -> Self:
        if self._sampler is not None:
            self._sampler.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.seen()

    def seen(self) -> tuple[ThreadSamples, ...]:
        """Watch no more, and return what was seen."""
        if self._sampler is not None:
            self._seen, self._sampler = self._sampler.stop(), None
        return self._seen
