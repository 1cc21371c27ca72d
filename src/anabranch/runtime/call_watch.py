"""Ends calls of user code that take too long for one item (`item_timeout`).

There is no cost per item. A watchdog thread inspects the frames of the threads that run
operators from time to time: if the frame of an operator's function is the same after
`item_timeout`, it belongs to one call, for one item. An error is raised inside that
call, so that it fails as any item does: the operator, the line and the item are named,
and `on_error` decides.

Python code can be interrupted at any line; a call blocked in C code (`time.sleep`, a
socket without a timeout) only when it returns. Such a call is logged; a Spark worker is
then killed, and its epoch runs again.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, TypeAlias

from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import SourceKind
from anabranch.logs import log, logger_of
from anabranch.operators.iterate import Iterate

CodeOf: TypeAlias = Mapping[CodeType, str]  # code -> its operator
_LOGGER = logger_of("runtime")
_LOOKS = 4  # within the time of a call
_MOST_S = 1.0  # between two inspections
_PATIENCE_S = 5.0  # minimum time for an interrupted call to end


class SlowCallError(TimeoutError):
    """Raised inside a call of user code that has taken too long."""

    def __init__(self, *text: str) -> None:
        """State the limit, unless the text is given."""
        limit = _watchdog.find_limit(threading.get_ident())
        super().__init__(
            *(text or (f"must be done with an item within {limit:g} s (item_timeout)",))
        )


@dataclass(frozen=True)
class CallLimit:
    """The time limit of an operator's function for one item."""

    codes: CodeOf
    limit_s: float
    ends_process: bool = False  # if an interrupted call does not end

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Watch the calls of this thread for the duration of the block."""
        thread = threading.get_ident()
        _watchdog.add(thread, self)
        try:
            yield
        finally:
            _watchdog.remove(thread)


def limit_calls(
    graph: Graph, limit_s: float | None, *, ends_process: bool = False
) -> contextlib.AbstractContextManager[None]:
    """Watch this thread's calls of a program's functions, if there is a limit."""
    if limit_s is None:
        return contextlib.nullcontext()
    return CallLimit(find_codes(graph), limit_s, ends_process).in_force()


def find_codes(graph: Graph) -> CodeOf:
    """Return the code of the functions that operators call per item.

    >>> find_codes(Graph(()))
    {}

    Sources are excluded: a generator is one call from its first item to its last.
    """
    return {code: op.name for op in graph for code in _codes_for(graph, op)}


def _codes_for(graph: Graph, op: Op) -> Iterator[CodeType]:
    """Yield the code an operator calls: its functions, its key's, and its items'
    methods.
    """
    if isinstance(op.kind, SourceKind):
        return
    items = (graph[output.operator].type for output in op.inputs)
    for function in (*op.called, *items):
        yield from _codes_of(function)
    if isinstance(op.kind, Iterate):
        yield from find_codes(op.kind.body)


def _codes_of(function: Any) -> Iterator[CodeType]:
    """Yield the code that runs first when a function or a method of a class is called.

    >>> [code.co_name for code in _codes_of(functools.partial(_codes_of, None))]
    ['_codes_of']
    >>> [code.co_name for code in _codes_of(functools.lru_cache(_codes_of))]
    ['_codes_of']
    """
    match function:
        case FunctionType():
            yield function.__code__
        case MethodType() | classmethod() | staticmethod():
            yield from _codes_of(function.__func__)
        case functools.partial() | functools.cached_property():
            yield from _codes_of(function.func)
        case property():
            yield from _codes_of(function.fget)
        case type():
            for base in function.__mro__:
                yield from _codes_in(base)
        case _ if isinstance(type(function).__call__, FunctionType):
            yield type(function).__call__.__code__
        case _ if "__wrapped__" in getattr(function, "__dict__", {}):  # functools.cache
            yield from _codes_of(function.__wrapped__)


def _codes_in(cls: type) -> Iterator[CodeType]:
    """Yield the code that runs first when a method of a class is called."""
    for one in vars(cls).values():
        if not isinstance(one, type):  # a nested class is called by a method, if at all
            yield from _codes_of(one)


@dataclass
class _Call:
    """A call in progress."""

    frame: FrameType
    operator: str
    since_s: float
    told: bool = False


class _Watchdog:
    """Inspects the watched threads, from a thread of its own."""

    def __init__(self) -> None:
        self._limits: dict[int, CallLimit] = {}
        self._calls: dict[int, _Call] = {}
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._process = 0  # the thread it runs in

    def find_limit(self, thread: int) -> float:
        limit = self._limits.get(thread)
        return 0.0 if limit is None else limit.limit_s

    def add(self, thread: int, limit: CallLimit) -> None:
        with self._lock:
            self._limits[thread] = limit
            if self._process != os.getpid():  # Spark workers are forked
                self._process = os.getpid()
                threading.Thread(target=self._watch, name="watch", daemon=True).start()
        self._news.set()

    def remove(self, thread: int) -> None:
        with self._lock:
            self._limits.pop(thread, None)
            self._calls.pop(thread, None)

    def _watch(self) -> None:
        while True:
            with self._lock:
                limits = dict(self._limits)
            if not limits:
                self._news.clear()
                self._news.wait()
                continue
            shortest_s = min(one.limit_s for one in limits.values())
            time.sleep(min(shortest_s / _LOOKS, _MOST_S))
            frames = sys._current_frames()  # noqa: SLF001 - documented for debuggers
            for thread, limit in limits.items():
                self._look(thread, limit, frames.pop(thread, None))
            del frames

    def _look(self, thread: int, limit: CallLimit, top: FrameType | None) -> None:
        with self._lock:
            if thread not in self._limits:
                return
            found = _find_call(top, limit.codes)
            known = self._calls.get(thread)
            if found is None or known is None or known.frame is not found.frame:
                self._calls.pop(thread, None)
                if found is not None:
                    self._calls[thread] = found
                return
            took_s = time.monotonic() - known.since_s
            if not known.told and took_s >= limit.limit_s:
                known.told = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread), ctypes.py_object(SlowCallError)
                )
            elif took_s >= limit.limit_s + max(limit.limit_s, _PATIENCE_S):
                known.since_s = time.monotonic()
                _report(known, took_s)
                if limit.ends_process:
                    os._exit(1)


def _find_call(top: FrameType | None, codes: CodeOf) -> _Call | None:
    """Return the call of an operator's function that a thread is in, if any."""
    found = None
    while top is not None:
        if top.f_code in codes:
            found = top  # the outermost: a function may call itself
        top = top.f_back
    if found is None:
        return None
    return _Call(found, codes[found.f_code], time.monotonic())


def _report(call: _Call, took_s: float) -> None:
    code = call.frame.f_code
    given = code.co_varnames[: code.co_argcount]
    held = {name: call.frame.f_locals.get(name) for name in given}
    log(
        _LOGGER,
        logging.ERROR,
        f"operator {call.operator!r} waits outside Python, where its call cannot be ended; "
        f"give what it waits for a timeout",
        function=f"{code.co_name} ({code.co_filename}:{call.frame.f_lineno})",
        seconds=round(took_s),
        arguments=held,
    )


_watchdog = _Watchdog()
