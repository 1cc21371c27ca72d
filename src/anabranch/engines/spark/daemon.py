"""The process that workers are forked from: it loads what every task needs, once.

Spark's own daemon leaves most imports to the workers, each of which then loads Arrow and
us, and reads PySpark from a zip file that has no compiled modules. A fork gets them for
nothing.
"""

from __future__ import annotations

import gc
import importlib
import sys
from pathlib import Path

# Loaded by name, once it is known from where.
DAEMON = "pyspark.daemon"
NEEDED = (
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "anabranch.engines.spark.worker",
)


def prefer_installed_pyspark() -> None:
    """Have PySpark read from where it is installed, if it is, not from Spark's zip file.

    Both are of one installation: the zip file is part of the package.
    """
    zipped = [path for path in sys.path if Path(path).name == "pyspark.zip"]
    for path in zipped:
        package = Path(path).parents[2]
        if package.name == "pyspark" and str(package.parent) in sys.path:
            sys.path.remove(path)


def main() -> None:
    """Load what tasks need, then do as Spark's own daemon does."""
    prefer_installed_pyspark()
    for module in NEEDED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a worker that looks for garbage would copy all pages it looks at
    importlib.import_module(DAEMON).manager()


if __name__ == "__main__":
    main()
