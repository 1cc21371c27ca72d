"""Whether the regions of a checkpoint's program are chains of operators, or graphs.

In earlier releases they were chains. The place of a state follows from its operator's
region, so a job that continues a checkpoint has regions of the same kind.

Every job asks this, also one on an engine that needs none of the packages of the other
files here. So this file imports none of them.
"""

from __future__ import annotations

import json
import os

from anabranch.connectors.storage import locate

CHAINS, GRAPHS = "chains", "graphs"


def has_chains(directory: str | os.PathLike[str]) -> bool:
    """Tell whether an existing checkpoint was made with chains as regions.

    One that cannot be read is refused with its reasons when it is opened.
    """
    try:
        found = json.loads((locate(os.fspath(directory)) / "program.json").read_bytes())
        return bool(found["program"].get("regions", CHAINS) == CHAINS)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
