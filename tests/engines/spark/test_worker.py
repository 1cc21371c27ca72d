"""What a worker does between tasks."""

from __future__ import annotations

import subprocess
import sys

import pytest

# In a process of its own: in that of other tests a collection may do nothing, since
# one that has begun has not ended.
SCRIPT = """\
import gc, weakref
from anabranch.epochs.task_runner import WHOLE, collect_garbage

class Cycle:  # only a look for garbage can find it
    def __init__(self):
        self.itself = self

one = Cycle()
seen = weakref.ref(one)
if {old}:
    gc.collect()
del one
gc.disable()
for _ in range({times}):
    collect_garbage()
print("gone" if seen() is None else "still there")
"""


@pytest.mark.parametrize(
    ("old", "times"),
    [(False, "1"), (True, "WHOLE")],
    ids=["of a task, after it", "that was in use for long, in the end"],
)
def test_garbage_is_found(old, times):
    script = SCRIPT.format(old=old, times=times)

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert ("gone\n", "") == (done.stdout, done.stderr)
