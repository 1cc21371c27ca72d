"""The profiler in a worker: it watches the thread that runs a task."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from anabranch.engines.spark.task import EpochTask
from anabranch.metrics.samples import ThreadSamples
from anabranch.runtime.profile import Sampler, Watched
from anabranch.runtime.program import Program


class Watch:
    """Watches the present thread from now on, if the task asks for it."""

    def __init__(
        self,
        task: EpochTask,
        operators: Sequence[str],
        programs: Callable[[EpochTask], list[Program]],
    ) -> None:
        self._sampler: Sampler | None = None
        if task.profiling and operators:
            thread = threading.current_thread()
            watched = Watched(thread, operators[0], programs(task))
            self._sampler = Sampler([watched])
            self._sampler.start()

    def seen(self) -> tuple[ThreadSamples, ...]:
        """Watch no more, and return what was seen."""
        return () if self._sampler is None else self._sampler.stop()
