"""Ships a job to the workers: its specification, and where its modules are found.

A module of the user's that lies beside the script can be imported by the driver, since
Python put the script's directory on the path. Workers get the same path first.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

from pyspark import cloudpickle

from anabranch.engines.modules import sent_by_value


def packed(spec: Any) -> bytes:
    """Return a specification as bytes for the workers."""
    for module in sent_by_value():
        cloudpickle.register_pickle_by_value(module)
    path = [os.path.abspath(entry) for entry in sys.path]  # noqa: PTH100 - may not exist
    return cloudpickle.dumps((path, os.getcwd(), cloudpickle.dumps(spec)))  # type: ignore[no-any-return]  # noqa: PTH109


def unpacked(data: bytes) -> Any:
    """Make this process find what the driver finds; return the specification."""
    path, directory, spec = cloudpickle.loads(data)
    sys.path += [entry for entry in path if entry not in sys.path]
    with contextlib.suppress(OSError):  # another host need not have it
        os.chdir(directory)  # relative paths are meant from there
    return cloudpickle.loads(spec)
