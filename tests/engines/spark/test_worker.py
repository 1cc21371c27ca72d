"""What a worker does between tasks."""

from __future__ import annotations

import gc
import weakref

from anabranch.epochs.task_runner import WHOLE, collect_garbage


class Cycle:
    """Refers to itself, so that only a look for garbage can find it."""

    def __init__(self) -> None:
        self.itself = self


def test_garbage_of_a_task_is_gone_after_it():
    gc.disable()
    try:
        seen = weakref.ref(Cycle())
        collect_garbage()
        assert seen() is None
    finally:
        gc.enable()


def test_garbage_that_was_in_use_for_long_is_found_in_the_end():
    one = Cycle()
    gc.collect()
    seen = weakref.ref(one)
    del one
    gc.disable()
    try:
        for _ in range(WHOLE):
            collect_garbage()
        assert seen() is None
    finally:
        gc.enable()
