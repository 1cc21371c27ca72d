"""Compiles kernels with Numba, each text once.

Compiled code is kept in this process, and in a folder of the user's own so that other
processes (the workers of Spark, the next run) find it. Numba is imported when the first
kernel is compiled, not before: that alone takes a third of a second.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from anabranch.plan.plan import Column, Kernel

Fire: TypeAlias = Callable[..., bool]  # count, arrays in, arrays out, constants -> bad

FOLDER_VARIABLE = "ANABRANCH_KERNELS"

_lock = threading.Lock()
_compiled: dict[str, Fire] = {}


class CompilationError(Exception):
    """Numba cannot compile a kernel here; the program goes on in Python."""


def compile_kernel(kernel: Kernel) -> Fire:
    """Return the compiled function of a kernel."""
    name, text = _named(kernel)
    with _lock:
        if name not in _compiled:
            _compiled[name] = _compile(name, text, kernel)
        return _compiled[name]


def is_compiled(kernel: Kernel) -> bool:
    """Tell whether this process has compiled a kernel, or one with the same text."""
    return not kernel.source or _named(kernel)[0] in _compiled


@lru_cache(maxsize=1024)
def _named(kernel: Kernel) -> tuple[str, str]:
    """Return the name of a kernel, the same for the same text, and its module."""
    shape = "".join(column.kind[0] for column in (*kernel.takes, *kernel.gives))
    text = f"import math\n\nimport numpy as np\n\n\n{kernel.source}"
    return hashlib.sha256(f"{shape} {text}".encode()).hexdigest()[:24], text


def _compile(name: str, text: str, kernel: Kernel) -> Fire:
    try:
        numba = importlib.import_module("numba")
        if numba.config.USING_SVML and "math." in text:
            msg = "Intel's SVML computes math functions differently from Python"
            raise CompilationError(msg)  # noqa: TRY301 - one way to say no
        function, cache = _loaded(name, text)
        decorate = numba.njit(
            [_signature(numba, kernel.takes, kernel.gives)],
            nogil=True,
            error_model="numpy",
            fastmath=False,
            cache=cache,
        )
        made: Fire = decorate(function)
    except CompilationError:
        raise
    except Exception as error:  # a compiler has many ways to fail
        msg = f"{type(error).__name__}: {error}"
        raise CompilationError(msg) from error
    return made


def _signature(numba: Any, takes: Sequence[Column], gives: Sequence[Column]) -> Any:
    types = numba.types
    of = {"float": types.float64, "int": types.int64, "bool": types.boolean}
    read = [types.Array(of[c.kind], 1, "C", readonly=True) for c in takes]
    written = [types.Array(of[c.kind], 1, "C") for c in gives]
    constants = types.Array(types.float64, 1, "C", readonly=True)
    return types.boolean(types.int64, *read, *written, constants)


def _loaded(name: str, text: str) -> tuple[Callable[..., Any], bool]:
    """Return the function of a text, and whether its compiled code can be kept."""
    folder = kernel_folder()
    if folder is None:
        names: dict[str, Any] = {}
        exec(compile(text, f"<anabranch kernel {name}>", "exec"), names)  # noqa: S102 - our own text
        return names["kernel"], False
    path = folder / f"anabranch_kernel_{name}.py"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    module_name = path.stem
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None  # noqa: PT018, S101
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # Numba finds the function by its module
    spec.loader.exec_module(module)
    return module.kernel, True


def kernel_folder() -> Path | None:
    """Return the folder for compiled code, or None if there is no safe one.

    What lies there is executed, so nobody else may be able to write to it.
    """
    chosen = os.environ.get(FOLDER_VARIABLE)
    user = os.getuid() if hasattr(os, "getuid") else 0
    path = (
        Path(chosen)
        if chosen
        else Path(tempfile.gettempdir()) / f"anabranch-kernels-{user}"
    )
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
    except OSError:
        return None
    safe = path.is_dir() and not path.is_symlink() and status.st_uid == user
    return path if safe and not status.st_mode & 0o022 else None
