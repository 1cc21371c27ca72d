"""Tells a process that was lost from a program that failed.

What was lost (a Python worker, an executor) can be run again: an epoch counts only when
it is committed. What failed would fail again.
"""

from __future__ import annotations

TRIES = 5  # of an epoch, before the loss counts as a failure

_SIGNS = (
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "Python worker process terminated",
    "Python daemon failed to launch worker",
    "ClosedChannelException",
    "ExecutorLostFailure",
    "FetchFailed",
    "MetadataFetchFailed",
    "Connection reset",
    "Broken pipe",
    "java.io.EOFException",
)


def is_loss(error: BaseException) -> bool:
    """Tell whether a Spark job ended because one of its processes did.

    >>> is_loss(RuntimeError("... ExecutorLostFailure (executor 1 exited) ..."))
    True
    >>> is_loss(RuntimeError("ZeroDivisionError"))
    False
    """
    text = str(error)
    return any(sign in text for sign in _SIGNS)
