"""Memory set aside, so that a job that runs out of it can say so and clean up.

Where an allocation has failed, those of an error message and of the removal of
unfinished files would fail too. The reserve is address space that is never written to.
"""

from __future__ import annotations

import contextlib
import mmap

from anabranch.errors import EngineError

_BYTES = 16 << 20
ADVICE = (
    "allow the process more (ulimit -v, or the limit of its container), or take a "
    "smaller degree= or epoch_items="
)

_NO_THREAD = "can't start new thread"  # there was no memory for its stack

_held: list[mmap.mmap] = []


def set_aside() -> None:
    """Make the reserve, when a job begins; without space for it, do without."""
    if not _held:
        with contextlib.suppress(OSError, MemoryError):
            _held.append(mmap.mmap(-1, _BYTES))


def release_for(error: BaseException) -> None:
    """Give the reserve back if this error says that memory ran out."""
    if is_lack(error):
        while _held:
            _held.pop().close()


def is_lack(error: BaseException) -> bool:
    """Tell whether an error says that memory ran out.

    >>> is_lack(RuntimeError("can't start new thread")), is_lack(RuntimeError("no"))
    (True, False)
    """
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and str(error) == _NO_THREAD
    )


def explain_lack(error: BaseException) -> BaseException:
    """Return what to tell the user if memory ran out; else the error itself.

    >>> str(explain_lack(MemoryError())).partition(";")[0]
    'a job must have enough memory'
    >>> explain_lack(KeyError("symbol"))
    KeyError('symbol')
    """
    if not is_lack(error):
        return error
    release_for(error)
    told = EngineError(
        f"a job must have enough memory; the process ran out of it; {ADVICE}"
    )
    told.__cause__ = error
    return told
