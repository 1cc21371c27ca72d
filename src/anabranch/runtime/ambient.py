"""The settings around a program, which its code reads without naming them.

How Decimal rounds, what NumPy does about a division by zero, which warnings are errors,
the time zone: a thread or a worker starts with others than the thread that runs the
program. So they are captured where the program is started, and set wherever its code
runs, once for each thread and each task.

In this process most of them are common to all threads; a copy of the context
(`contextvars`) brings the rest, Decimal's and NumPy's included. Another process gets
them as `AmbientSettings`, and has its own back when the task is over.
"""

from __future__ import annotations

import contextlib
import contextvars
import decimal
import locale
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from anabranch.errors import EngineError

P = ParamSpec("P")
R = TypeVar("R")

_CATEGORIES = ("LC_CTYPE", "LC_COLLATE", "LC_TIME", "LC_MONETARY", "LC_NUMERIC")
# What belongs to a process, not to a program.
_OWN_VARIABLES = (
    *("SPARK_", "PYSPARK_", "PYTHON", "JAVA_", "PY4J_", "LD_", "DYLD_"),
    *("PATH", "HOME", "PWD", "TMPDIR", "HOSTNAME", "USER", "LOGNAME", "SHLVL"),
)


@dataclass(frozen=True)
class AmbientSettings:
    """What another process must be told; `variables` has None for one that is unset."""

    decimals: decimal.Context
    numpy_errors: Mapping[str, Any]
    numpy_on_error: Any
    numpy_text: Mapping[str, Any]
    warning_filters: tuple[Any, ...]
    recursion_limit: int
    most_digits: int
    locales: Mapping[str, str]
    variables: Mapping[str, str | None]

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Have them in this process for a while."""
        before = capture_settings(self.variables)
        self._set()
        try:
            yield
        finally:
            before._set()  # noqa: SLF001 - of the same class

    def _set(self) -> None:
        decimal.setcontext(self.decimals.copy())
        np.seterr(**self.numpy_errors)
        np.seterrcall(self.numpy_on_error)
        np.set_printoptions(**self.numpy_text)
        if tuple(warnings.filters) != self.warning_filters:
            warnings.resetwarnings()  # tells those who remember what was shown already
            warnings.filters[:] = self.warning_filters  # type: ignore[index]
        sys.setrecursionlimit(self.recursion_limit)
        sys.set_int_max_str_digits(self.most_digits)
        self._set_variables()
        for category, name in self.locales.items():
            _set_locale(category, name)

    def _set_variables(self) -> None:
        for name, value in self.variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if "TZ" in self.variables and hasattr(time, "tzset"):
            time.tzset()


@dataclass(frozen=True)
class Ambient:
    """What was around the program when it was started."""

    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    def bind(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return a function that runs with it, in whatever thread; for one call.

        >>> precise = decimal.Context(prec=3)
        >>> with decimal.localcontext(precise):
        ...     third = Ambient().bind(lambda: decimal.Decimal(1) / 3)
        >>> third()
        Decimal('0.333')
        """
        context = self.context.copy()

        def run(*args: P.args, **keywords: P.kwargs) -> R:
            return context.run(function, *args, **keywords)

        return run


def capture_settings(
    variables: Mapping[str, str | None] | None = None,
) -> AmbientSettings:
    """Return the settings of this thread and process.

    Of environment variables it has those named, or all that have changed since this
    process began.
    """
    if variables is None:
        began = _first_environment()
        names = [
            name
            for name in {**began, **os.environ}
            if began.get(name) != os.environ.get(name)
            and not name.startswith(_OWN_VARIABLES)
        ]
    else:
        names = list(variables)
    return AmbientSettings(
        decimals=decimal.getcontext().copy(),
        numpy_errors=np.geterr(),
        numpy_on_error=np.geterrcall(),
        numpy_text=np.get_printoptions(),
        warning_filters=tuple(warnings.filters),
        recursion_limit=sys.getrecursionlimit(),
        most_digits=sys.get_int_max_str_digits(),
        locales={c: locale.setlocale(getattr(locale, c)) for c in _CATEGORIES},
        variables={name: os.environ.get(name) for name in names},
    )


def _set_locale(category: str, name: str) -> None:
    number = getattr(locale, category)
    if locale.setlocale(number) == name:
        return
    try:
        locale.setlocale(number, name)
    except locale.Error as error:
        if category == "LC_CTYPE":  # set for every process; hardly any code asks for it
            return
        msg = (
            f"workers must have the locale of the program; {category} is {name!r}, which "
            f"this one does not have; install it there, or do without setlocale"
        )
        raise EngineError(msg) from error


def _first_environment() -> Mapping[str, str]:
    """Return the variables with which this process began, as far as that is known."""
    try:
        data = Path("/proc/self/environ").read_bytes()
    except OSError:
        return _AT_IMPORT
    pairs = (os.fsdecode(pair).partition("=") for pair in data.split(b"\0") if pair)
    return {name: value for name, _, value in pairs}


_AT_IMPORT = dict(os.environ)
