"""The package as it is published: version, licence, authors."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import anabranch as ab

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_is_that_of_the_installed_package():
    assert PROJECT["version"] == ab.__version__


def test_the_licence_is_there_whole():
    """
    The text of the Apache licence, from its title to the end of its appendix.
    """
    text = (ROOT / "LICENSE").read_text()

    assert "Apache-2.0" == PROJECT["license"]
    assert ["LICENSE"] == PROJECT["license-files"]
    assert text.split()[:4] == ["Apache", "License", "Version", "2.0,"]
    assert "END OF TERMS AND CONDITIONS" in text
    assert text.rstrip().endswith("limitations under the License.")


def test_the_package_names_its_authors_and_claims_only_tested_versions_of_python():
    versions = [c for c in PROJECT["classifiers"] if "Python :: 3." in c]

    assert [{"name": "The Anabranch authors"}] == PROJECT["authors"]
    assert ["Programming Language :: Python :: 3.11"] == versions
    assert "Typing :: Typed" in PROJECT["classifiers"]


WITHOUT_EXTRAS = """
import sys
for name in ("cloudpickle", "lmdb", "pandas", "pyspark"):
    sys.modules[name] = None
import anabranch as ab
numbers = ab.from_iterable(range(1000)).map(lambda n: n % 7)
sums = numbers.key_by(lambda n: n).scan(lambda total, n: (total + n, total), 0)
out = sums.to_list()
ab.run(out, on="local")
print(sum(out.items))
try:
    ab.run(numbers.to_list())
except ab.errors.EngineError as error:
    print(error)
"""


def test_the_local_engine_needs_none_of_the_extras():
    """
    A sum that is s times n comes from s items of the same number n before.
    """
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS],
        capture_output=True,
        text=True,
        check=True,
    )
    seen = dict.fromkeys(range(7), 0)
    expected = 0
    for n in range(1000):
        expected += seen[n % 7]
        seen[n % 7] += n % 7

    total, refusal = done.stdout.splitlines()
    assert str(expected) == total
    assert refusal.startswith(
        "on='spark' needs the module pyspark; it is not installed"
    )
    assert "pip install 'anabranch[spark]'" in refusal


LOADED = """
import sys
import anabranch as ab
out = ab.from_iterable([1, 2]).key_by(str).map(abs).to_list()
rooms = {name.split(".")[1] for name in sys.modules if name.startswith("anabranch.")}
print(sorted(rooms), sorted({"numpy", "pyarrow"} & set(sys.modules)))
ab.run(out, on="sequential")
print(out.items)
"""


def test_a_program_is_written_without_loading_what_runs_it():
    """
    A process that only writes a program, or only runs a part of one, starts quickly.
    """
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )

    rooms, items = done.stdout.splitlines()
    wanted = [
        "connectors",
        "errors",
        "graph",
        "language",
        "logs",
        "operators",
        "runtime",
    ]
    assert f"{wanted} []" == rooms
    assert "[1, 2]" == items
