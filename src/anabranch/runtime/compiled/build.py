"""Compiles kernels with Numba, each text once, and divides firings among threads.

Compiled code is cached in this process, and in a user folder so that other processes
(Spark workers, the next run) find it. Numba is imported when the first kernel is
compiled: that alone takes a third of a second.

Kernels release the interpreter lock, so threads run the firings of one operator
concurrently (fission).
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

from anabranch.errors import EngineError
from anabranch.logs import log, logger_of
from anabranch.plan.column_kernels import ColumnKernel
from anabranch.plan.plan import ArrayColumn, ArrayKernel
from anabranch.private import make_private, private_directory

Fire: TypeAlias = Callable[..., bool]  # count, arrays in, arrays out, constants -> bad

FOLDER_VARIABLE = "ANABRANCH_KERNELS"

T = TypeVar("T")
_LOGGER = logger_of("runtime")

_lock = threading.Lock()
_compiled: dict[str, Fire] = {}


class CompilationError(Exception):
    """Numba cannot compile a kernel here; the program continues in Python."""


def compile_kernel(kernel: ArrayKernel) -> Fire:
    """Return the compiled function of a kernel."""
    name, text = _name_kernel(kernel)
    with _lock:
        if name not in _compiled:
            _compiled[name] = _compile(name, text, kernel)
        return _compiled[name]


def is_compiled(kernel: ArrayKernel) -> bool:
    """Tell whether this process has compiled a kernel with this text."""
    return not kernel.source or _name_kernel(kernel)[0] in _compiled


@lru_cache(maxsize=1024)
def _name_kernel(kernel: ArrayKernel) -> tuple[str, str]:
    """Return the name of a kernel, unique by its text, and its module."""
    shape = "".join(column.kind[0] for column in (*kernel.takes, *kernel.gives))
    text = f"import math\n\nimport numpy as np\n\n\n{kernel.source}"
    return hashlib.sha256(f"{shape} {text}".encode()).hexdigest()[:24], text


def compile_columns(kernel: ColumnKernel) -> Fire:
    """Return the compiled function of a column kernel."""
    name, text = _name_columns(kernel)
    with _lock:
        if name not in _compiled:
            _compiled[name] = _compile(name, text, kernel)
        return _compiled[name]


def has_compiled_columns(kernel: ColumnKernel) -> bool:
    """Tell whether this process has compiled a column kernel with this text."""
    return not kernel.text or _name_columns(kernel)[0] in _compiled


def _name_columns(kernel: ColumnKernel) -> tuple[str, str]:
    head = "import math\n\nimport numpy as np\nfrom numba import njit\n\n\n"
    shape = repr(_column_arrays(kernel))
    digest = hashlib.sha256(f"{shape} {kernel.text}".encode()).hexdigest()[:24]
    return f"c{digest}", head + kernel.text


def _column_arrays(kernel: ColumnKernel) -> tuple[list[str], list[str]]:
    """Return the kinds of the arrays that a kernel reads and writes."""
    read: list[str] = [k for shape in kernel.read_shapes for k in shape.arrays]
    for table in kernel.tables:
        read += [table.gives, "bool"]
    written: list[str] = []
    if kernel.state is not None:
        written += [k for shape in kernel.state.scalars() for k in shape.arrays]
    if kernel.role in ("filter", "split"):
        return read, ["bool" if kernel.role == "filter" else "int"]
    if kernel.role in ("flat_map", "routes"):
        written.append("int")
    return read, [*written, *(k for shape in kernel.computed for k in shape.arrays)]


def _column_signature(numba: Any, kernel: ColumnKernel) -> Any:
    types = numba.types
    of = {"float": types.float64, "bool": types.boolean}
    read, written = _column_arrays(kernel)

    def arrays(kinds: Sequence[str], *, readonly: bool) -> list[Any]:
        found = (of.get(kind, types.int64) for kind in kinds)
        return [types.Array(one, 1, "C", readonly=readonly) for one in found]

    head: list[Any] = []
    if kernel.role == "scan":
        head = [*arrays(["int"], readonly=True), *arrays(["bool"], readonly=False)]
    elif kernel.window is not None:
        bound = kernel.window.bound
        bounds = [] if bound is None else [bound, bound]
        places = ["int"] if kernel.window.in_place else []
        head = arrays(["int", "int", *bounds, *places], readonly=True)
    return types.int64(
        types.int64,
        *arrays(["int"], readonly=True),
        *head,
        *arrays(read, readonly=True),
        *arrays(written, readonly=False),
    )


def is_stored(kernel: ArrayKernel | ColumnKernel) -> bool:
    """Tell whether compiling a kernel means no more than reading it from the folder.

    That takes some milliseconds, once Numba has been imported.
    """
    if "numba" not in sys.modules:
        return False
    if isinstance(kernel, ColumnKernel):
        text, (name, _) = kernel.text, _name_columns(kernel)
    else:
        text, (name, _) = kernel.source, _name_kernel(kernel)
    if not text:
        return True
    folder = kernel_folder()
    if folder is None:
        return False
    return any((folder / "__pycache__").glob(f"anabranch_kernel_{name}.kernel-*.nbi"))


def compile_functions(text: str, signatures: Mapping[str, str]) -> list[Fire]:
    """Return the functions of a module's text, compiled for Numba signatures."""
    digest = hashlib.sha256(f"{signatures} {text}".encode()).hexdigest()[:24]
    try:
        numba = importlib.import_module("numba")

        def compile_all(module: ModuleType, *, cache: bool) -> list[Fire]:
            return [
                numba.njit(sign, nogil=True, cache=cache)(vars(module)[name].py_func)
                for name, sign in signatures.items()
            ]

        return _compile_stored(numba, f"m{digest}", text, compile_all)
    except Exception as error:  # compilers fail in many ways
        msg = f"{type(error).__name__}: {error}"
        raise CompilationError(msg) from error


def _compile(name: str, text: str, kernel: ArrayKernel | ColumnKernel) -> Fire:
    try:
        numba = importlib.import_module("numba")
        if numba.config.USING_SVML and "math." in text:
            msg = "Intel's SVML computes math functions differently from Python"
            raise CompilationError(msg)  # noqa: TRY301 - one way to say no
        if isinstance(kernel, ColumnKernel):
            signature = _column_signature(numba, kernel)
        else:
            signature = _signature(numba, kernel.takes, kernel.gives)

        def compile_one(module: ModuleType, *, cache: bool) -> Fire:
            decorate = numba.njit(
                [signature],
                nogil=True,
                error_model="numpy",
                fastmath=False,
                cache=cache,
            )
            made: Fire = decorate(module.kernel)
            return made

        return _compile_stored(numba, name, text, compile_one)
    except CompilationError:
        raise
    except Exception as error:  # compilers fail in many ways
        msg = f"{type(error).__name__}: {error}"
        raise CompilationError(msg) from error


def _signature(
    numba: Any, takes: Sequence[ArrayColumn], gives: Sequence[ArrayColumn]
) -> Any:
    types = numba.types
    of = {"float": types.float64, "int": types.int64, "bool": types.boolean}
    read = [types.Array(of[c.kind], 1, "C", readonly=True) for c in takes]
    written = [types.Array(of[c.kind], 1, "C") for c in gives]
    constants = types.Array(types.float64, 1, "C", readonly=True)
    return types.boolean(types.int64, *read, *written, constants)


def _compile_stored(numba: Any, name: str, text: str, make: Callable[..., T]) -> T:
    """Compile the module of a text by `make`, or read its code from the folder.

    If the folder is full, or a file in it is damaged, all that costs is time.
    """
    folder = kernel_folder()
    if folder is not None:
        try:
            return make(_load(folder, name, text), cache=True)
        except numba.core.errors.NumbaError:
            raise
        except Exception as error:  # noqa: BLE001 - Numba unpickles its files
            log(_LOGGER, logging.WARNING, "folder of kernels", error=repr(error))
    made = ModuleType(f"anabranch_kernel_{name}")
    exec(compile(text, f"<anabranch kernel {name}>", "exec"), vars(made))  # noqa: S102 - our own text
    return make(made, cache=False)


def _load(folder: Path, name: str, text: str) -> ModuleType:
    """Return the module of a text, from a file in the folder."""
    path = folder / f"anabranch_kernel_{name}.py"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        draft = path.with_suffix(f".{os.getpid()}")
        try:
            draft.write_text(text, encoding="utf-8")
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    module_name = path.stem
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None  # noqa: PT018, S101
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # Numba finds the function by its module
    spec.loader.exec_module(module)
    return module


def kernel_folder() -> Path | None:
    """Return the folder for compiled code, or None if there is no safe one.

    Its contents are executed, so nobody else may have write access.
    """
    chosen = os.environ.get(FOLDER_VARIABLE)
    try:
        return make_private(Path(chosen)) if chosen else private_directory("kernels")
    except EngineError:
        return None


WORTH_S = 200e-6  # the work that makes waking a thread worthwhile
_FORGET = 0.3

Fired: TypeAlias = Callable[[int, int], bool]  # a range of firings


class FiringThreads:
    """The number of threads that share an operator's firings, by their cost.

    >>> threads = FiringThreads(2)
    >>> threads.ways(1000)
    1
    >>> threads.learn(10, 0.001)
    >>> threads.ways(1000)
    2
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._firing_s = 0.0

    def ways(self, firings: int) -> int:
        """Return how many threads should share so many firings."""
        worth = int(firings * self._firing_s / WORTH_S)
        return max(1, min(self._most, worth, firings))

    def learn(self, firings: int, time_s: float) -> None:
        """Record the cost of firings, all threads together."""
        cost_s = time_s / firings
        if self._firing_s:
            cost_s = self._firing_s + _FORGET * (cost_s - self._firing_s)
        self._firing_s = cost_s

    def each(self, fire: Fired, parts: Iterable[tuple[int, int]]) -> list[bool]:
        """Fire all parts concurrently, the first one in this thread."""
        first, *others = parts
        waiting = [_pool(self._most).submit(fire, *part) for part in others]
        return [fire(*first), *(one.result() for one in waiting)]


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="fission")
