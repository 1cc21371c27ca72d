"""The process that workers are forked from: it loads what every task needs, once.

Spark's own daemon leaves most imports to the workers, each of which then loads Arrow
and this package, and reads PySpark from a zip file without compiled modules. A fork
gets them for free.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import sys
from collections.abc import Callable
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import TypeAlias

# Imported by name, once it is known from where.
DAEMON = "pyspark.daemon"
WORKER = "pyspark.worker"
# Parameters of `mallopt` in glibc's malloc.h; other libraries ignore them.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_MAPPED_BYTES = 1 << 25  # of an array that is mapped by itself still
_KEPT_BYTES = 1 << 27  # at the end of the heap
# Arrow's allocator reads it, in milliseconds, when it is loaded; its own is 10.
_ARROW_DELAY, _KEPT_MS = "MIMALLOC_PURGE_DELAY", 2_000  # longer than most epochs
NEEDED = (
    WORKER,
    "pyspark.sql.pandas.serializers",
    "anabranch.engines.spark.worker",
)


def prefer_installed_pyspark() -> None:
    """Import PySpark from its installation, if there is one, not from Spark's zip file.

    Both belong to one installation: the zip file is part of the package.
    """
    zipped = [path for path in sys.path if Path(path).name == "pyspark.zip"]
    for path in zipped:
        package = Path(path).parents[2]
        if package.name == "pyspark" and str(package.parent) in sys.path:
            sys.path.remove(path)


Serve: TypeAlias = Callable[[BufferedReader, BufferedWriter], None]


def end_quietly(serve: Serve) -> Serve:
    """Return a task server that ends this process when Spark is gone.

    Spark's own would try to report the lost connection on it, and print a traceback for
    each worker at the end of some programs.
    """

    def run(infile: BufferedReader, outfile: BufferedWriter) -> None:
        if not infile.peek(1):  # no more tasks
            os._exit(0)
        try:
            serve(infile, outfile)
        finally:
            try:
                outfile.flush()
            except BrokenPipeError:  # nobody is left to be told
                os._exit(1)

    return run


def keep_freed_memory() -> None:
    """Have `malloc` keep the memory of freed arrays, where it is glibc's, and Arrow
    until the next epoch needs it.

    Otherwise each large array of a batch is mapped and unmapped by itself, and the
    kernel clears its pages once more: a fifth of the time of a task in columns.
    """
    os.environ.setdefault(_ARROW_DELAY, str(_KEPT_MS))
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES)
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)


def main() -> None:
    """Load what tasks need, then run Spark's own daemon."""
    keep_freed_memory()
    prefer_installed_pyspark()
    for module in NEEDED:
        importlib.import_module(module)
    worker = sys.modules[WORKER]
    worker.main = end_quietly(worker.main)  # type: ignore[attr-defined]
    gc.collect()
    gc.freeze()  # a garbage collection in a worker would copy all pages it visits
    importlib.import_module(DAEMON).manager()


if __name__ == "__main__":
    main()
