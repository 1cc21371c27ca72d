"""The place in the user's code where something was written.

Every operator remembers the line that made it, so that any later message about it, an
error or an explanation, can point there.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
_LIBRARIES = tuple(
    {
        os.path.realpath(path) + os.sep
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
        if (path := sysconfig.get_paths().get(name))
    }
)
# Also those of another environment, of a user, and of Debian.
_PACKAGES = tuple(
    f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages")
)


@dataclass(frozen=True)
class Site:
    """A file and a line of user code.

    >>> str(Site("jobs/cool.py", 11))
    'jobs/cool.py:11'
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


UNKNOWN = Site("<unknown>", 0)


def call_site() -> Site:
    """Return the innermost line outside this package that led to the call."""
    frame = sys._getframe(1)  # noqa: SLF001 - inspect.stack reads every file
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return Site(_shorten(frame.f_code.co_filename), frame.f_lineno)


def site_of(function: Any) -> Site:
    """Return where `function` (or class, method, partial) was written.

    >>> site_of(len)
    Site(file='<builtin>', line=0)
    """
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    function = getattr(function, "__func__", function)
    function = getattr(function, "__wrapped__", function)
    code = getattr(function, "__code__", None)
    if isinstance(function, type):
        methods = (getattr(each, "__code__", None) for each in vars(function).values())
        own = (each for each in methods if each and each.co_filename[:1] != "<")
        code = min(own, key=lambda each: each.co_firstlineno, default=None)
        if code is None:
            return _find_class(function)
    elif code is None:
        call = getattr(type(function), "__call__", None)  # noqa: B004 - wants its code
        code = getattr(call, "__code__", None)
    if code is not None:
        return Site(_shorten(code.co_filename), code.co_firstlineno)
    return Site("<builtin>", 0)


def _find_class(found: type) -> Site:
    """Return where a class without functions was written."""
    try:
        file = inspect.getsourcefile(found)
        _, line = inspect.getsourcelines(found)
    except (OSError, TypeError):  # of C, or typed at a prompt
        return Site("<builtin>", 0)
    return Site(_shorten(file or "<builtin>"), line)


@functools.lru_cache(maxsize=4096)
def is_users_file(filename: str) -> bool:
    """Tell whether a file is the user's own: not of Python, a package, or us.

    >>> is_users_file(os.__file__), is_users_file("<doctest x>")
    (False, True)
    """
    if filename.startswith("<frozen"):
        return False
    path = os.path.realpath(filename)
    return not (
        path.startswith((_PACKAGE, *_LIBRARIES))
        or any(folder in path for folder in _PACKAGES)
    )


@functools.lru_cache(maxsize=4096)
def is_users_module(name: str) -> bool:
    """Tell whether a loaded module is the user's own.

    `__main__` always is: `python -m cProfile script.py` runs the script there, and
    yet its file is a library's.
    """
    module = sys.modules.get(name)
    if module is None or name == "__main__":
        return True
    filename = getattr(module, "__file__", None)
    return filename is not None and is_users_file(filename)


def _shorten(path: str) -> str:
    """Return a path relative to the working directory if it lies below it."""
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        return path
    return path if relative.startswith("..") else relative
