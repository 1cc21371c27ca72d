"""Where applications find their input: real files, or samples that they make.

Real files lie in $ANABRANCH_DATA or in ../shared/data. A sample is made from a seed,
so it is the same on every machine, and lies in `out/samples`.
"""

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = Path("out") / "samples"


def real_file(*parts: str) -> Path | None:
    """Return a file of real data, or None where it is not available."""
    data = Path(os.environ.get("ANABRANCH_DATA", ROOT.parent / "shared" / "data"))
    path = data.joinpath(*parts)
    return path if path.exists() else None


def csv_sample(
    name: str, header: Sequence[str], rows: Iterable[Sequence[Any]], folder: Path
) -> Path:
    """Write rows under a name, with a header unless it is empty; return the file."""
    with _unfinished(folder / name).open("w", newline="") as file:
        writer = csv.writer(file)
        if header:
            writer.writerow(header)
        writer.writerows(rows)
    return _unfinished(folder / name).replace(folder / name)


def text_sample(name: str, lines: Iterable[str], folder: Path) -> Path:
    """Write lines under a name; return the file."""
    text = "".join(line + "\n" for line in lines)
    _unfinished(folder / name).write_text(text, encoding="utf-8")
    return _unfinished(folder / name).replace(folder / name)


def bytes_sample(name: str, data: bytes, folder: Path) -> Path:
    """Write bytes under a name; return the file."""
    _unfinished(folder / name).write_bytes(data)
    return _unfinished(folder / name).replace(folder / name)


def _unfinished(path: Path) -> Path:
    """Return where to write, so that nobody ever reads half a sample."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(path.name + ".unfinished")
