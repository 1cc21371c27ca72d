"""The process that workers are forked from: it loads what every task needs, once.

Spark's own daemon leaves most imports to the workers, each of which then loads Arrow
and this package, and reads PySpark from a zip file without compiled modules. A fork
gets them for free.
"""

from __future__ import annotations

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


def main() -> None:
    """Load what tasks need, then run Spark's own daemon."""
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
