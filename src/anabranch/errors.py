"""Every error that Anabranch raises.

::

    AnabranchError
    ├── GraphError         the program as a whole is wrong; lists every fault at once
    ├── ArgumentError      an argument of run, start or the like cannot be used
    ├── LoopError          a marked loop cannot be turned into stages: line and reason
    ├── PlanError          a plan breaks a rule that any plan must keep
    ├── OperatorError      an operator failed on an item
    │   └── LateItemError  an item came after its time window had been emitted
    ├── InputError         a source could not be read: file, row and value
    ├── OutputError        a sink could not be written
    │   └── FencedError    another process has taken over writing to a sink
    ├── CheckpointError    a checkpoint cannot be used with this program
    ├── EngineError        the engine itself could not start or go on
    │   └── RefutedError   an operator that ran in parallel turned out to have state
    └── DashboardError     a dashboard has no port to be served on, or no record to show

A message says what must hold; what was found instead; what to do about it. Each class
has a `code`, which the command line shows and under which `docs/errors.md` explains it.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import ClassVar


class AnabranchError(Exception):
    """The base of every error that Anabranch raises.

    `place` is the number of the source item behind it, and that of the source if there
    are several, if known. `rank` orders those at the end of the stream, over all
    replicas. `operator` is the name of the one that failed on an item.
    """

    code: ClassVar[str] = "AB00"
    place: tuple[int, ...] | None = None
    rank: bytes = b""
    operator: str | None = None


@dataclass(frozen=True)
class Fault:
    """One fault of a program, and how to fix it."""

    operator: str
    text: str
    fix: str
    file: str
    line: int

    def __str__(self) -> str:
        whose = f"operator {self.operator!r}: " if self.operator else ""
        return f"{self.file}:{self.line}: {whose}{self.text}; {self.fix}"


class GraphError(AnabranchError):
    """The program is not a valid graph; `faults` holds everything that is wrong."""

    code = "AB10"

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        self.faults = faults
        noun = "fault" if len(faults) == 1 else "faults"
        lines = "\n".join(f"  {fault}" for fault in faults)
        super().__init__(f"the program has {len(faults)} {noun}:\n{lines}")

    def __reduce__(self) -> tuple[type[GraphError], tuple[tuple[Fault, ...]]]:
        return type(self), (self.faults,)


class ArgumentError(AnabranchError, ValueError, TypeError):
    """An argument cannot be used: of `run`, `start`, a goal, or an operator."""

    code = "AB11"


class LoopError(AnabranchError):
    """A loop with marked stages cannot be turned into a stream: line and reason."""

    code = "AB12"


class PlanError(AnabranchError):
    """A plan breaks a rule that every plan must obey."""

    code = "AB13"


class OperatorError(AnabranchError):
    """An operator failed on an item; the user's own exception is its cause."""

    code = "AB20"


class LateItemError(OperatorError):
    """An item arrived after its time window had been emitted."""

    code = "AB21"


class InputError(AnabranchError):
    """A source could not be read; the message names the file, the row and the value."""

    code = "AB30"


class OutputError(AnabranchError):
    """A sink could not be written.

    `lasting` if no other item could be written either.
    """

    lasting: bool = False

    code = "AB31"


class FencedError(OutputError):
    """Another process has taken over writing to a sink; this one may start again."""

    code = "AB32"


class CheckpointError(AnabranchError):
    """A checkpoint cannot be used: it belongs to another program, or is damaged."""

    code = "AB40"


class EngineError(AnabranchError):
    """The engine could not start or continue."""

    code = "AB50"


class RefutedError(EngineError):
    """An operator depends on the order of its items, contrary to the analysis."""

    code = "AB51"


def is_of_engine(error: BaseException | None) -> bool:
    """Tell whether the engine failed, not the program.

    >>> is_of_engine(EngineError()), is_of_engine(RefutedError())
    (True, False)
    """
    return isinstance(error, EngineError) and not isinstance(error, RefutedError)


class DashboardError(AnabranchError):
    """The dashboard's port is taken, or there is no record of a run to show."""

    code = "AB60"


_HANDLES = (os.strerror(errno.EMFILE), os.strerror(errno.ENFILE))
_SPACE = tuple(os.strerror(n) for n in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


def advise(error: BaseException | str, otherwise: str) -> str:
    """Return what to do about a failure of the system, by what it says.

    >>> advise(OSError(24, "Too many open files"), "check the path")
    'allow more open files (ulimit -n), or use fewer files or replicas'
    >>> advise(OSError(28, "No space left on device"), "check the path")
    'free space there, or write elsewhere'
    >>> advise(OSError(13, "Permission denied"), "check the path")
    'check the path'
    """
    text = str(error)
    if any(sign in text for sign in _HANDLES):
        return "allow more open files (ulimit -n), or use fewer files or replicas"
    if any(sign in text for sign in _SPACE):
        return "free space there, or write elsewhere"
    return otherwise
