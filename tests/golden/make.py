"""Write the golden set: what all applications and 300 generated programs come to.

    python -m tests.golden.make                        # write the whole set anew
    python -m tests.golden.make FOLDER --generated 10  # every tenth generated program

A test compares the set with what the code gives now. Write it anew only when plans,
explanations or outputs are meant to change, and read its diff before you commit it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import lzma
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anabranch as ab
from tests.golden.record import describe
from tests.programs.generate import program

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SEEDS = range(300)
SECOND_PROGRAMS = (("finance", "five_minutes"), ("event_patterns", "in_a_row"))
NEEDS_OPENCV = {"lane_detection"}

Texts = dict[str, str]  # program -> its text


def main() -> None:
    """Write the texts of programs into a folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=HERE)
    parser.add_argument(
        "--apps", metavar="N", type=int, help="every Nth application only"
    )
    parser.add_argument(
        "--generated", metavar="N", type=int, help="every Nth generated program only"
    )
    options = parser.parse_args()
    whole = options.apps is None and options.generated is None
    folder = options.folder.resolve()
    if whole or options.apps:
        write_apps(folder, describe_apps(options.apps or 1))
    if whole or options.generated:
        write_generated(folder, describe_generated(SEEDS[:: options.generated or 1]))


def describe_apps(every: int = 1) -> Texts:
    """Return the texts of applications, each on its built-in sample.

    They are copied and run in a directory of their own, so that the paths in their
    plans are the same in every clone.
    """
    names = sorted(path.stem for path in (ROOT / "apps").glob("*.py"))
    programs = sorted([*((name, "program") for name in names), *SECOND_PROGRAMS])
    if importlib.util.find_spec("cv2") is None:
        programs = [one for one in programs if one[0] not in NEEDS_OPENCV]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "apps", Path(folder) / "apps")
        os.environ["ANABRANCH_DATA"] = str(Path(folder) / "no real data")
        os.chdir(folder)
        sys.path.insert(0, str(Path(folder) / "apps"))
        texts = {
            f"{app}.{name}": _describe_app(app, name) for app, name in programs[::every]
        }
        os.chdir(ROOT)
    return texts


def _describe_app(app: str, name: str) -> str:
    def build() -> list[ab.Result]:
        made = getattr(importlib.import_module(app), name)()
        return made if isinstance(made, list) else [made]

    return describe(build, exact=app not in NEEDS_OPENCV)


def describe_generated(seeds: range) -> Texts:
    """Return the texts of generated programs; every fifth has operators that fail."""
    os.chdir(ROOT)
    return dict(_describe_seeds(seeds))


def _describe_seeds(seeds: range) -> Iterator[tuple[str, str]]:
    for seed in seeds:
        generated = program(seed, failing=seed % 5 == 4)
        on_error = "skip" if generated.failing else "stop"
        text = describe(generated.build, on_error)
        yield f"generated {seed}", f"== program\n{generated}\n{text}"


def write_apps(folder: Path, texts: Texts) -> None:
    """Write a file for each application."""
    (folder / "apps").mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / "apps" / f"{name}.txt").write_text(text, encoding="utf-8")


def read_apps(folder: Path) -> Texts:
    """Return what `write_apps` has written."""
    paths = sorted((folder / "apps").glob("*.txt"))
    return {path.stem: path.read_text(encoding="utf-8") for path in paths}


def write_generated(folder: Path, texts: Texts) -> None:
    """Write all generated programs into one compressed file."""
    data = json.dumps(texts, indent=0).encode()
    (folder / "generated.json.xz").write_bytes(lzma.compress(data, preset=9))


def read_generated(folder: Path) -> Texts:
    """Return what `write_generated` has written."""
    data = lzma.decompress((folder / "generated.json.xz").read_bytes())
    texts: Texts = json.loads(data)
    return texts


if __name__ == "__main__":
    main()
