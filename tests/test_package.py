"""The package as it is published: version, licence, authors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import anabranch as ab

ROOT = Path(__file__).parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, BUILD = SETTINGS["project"], SETTINGS["build-system"]


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
    tested = ["3.11", "3.12", "3.13"]  # by `make test-pythons`
    assert [f"Programming Language :: Python :: {v}" for v in tested] == versions
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


MAKE_WHEEL = """
import os, sys
from setuptools import build_meta
made, source = sys.argv[1:]
os.chdir(source)
print(build_meta.build_sdist(made))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel, made from a source distribution of what Git has, as pip would make it."""
    folder = tmp_path_factory.mktemp("wheel")
    python = folder / "venv" / "bin" / "python"
    venv.create(folder / "venv", with_pip=True)
    run(python, "-m", "pip", "install", "--quiet", *BUILD["requires"])
    source = folder / "source"
    for name in run("git", "ls-files", "-z", cwd=ROOT).split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    run(python, "-c", MAKE_WHEEL, str(folder), str(source))
    (sdist,) = folder.glob("*.tar.gz")
    pip = [python, "-m", "pip", "--quiet"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    run(*pip, *build, str(sdist))
    (made,) = folder.glob("*.whl")
    run(*pip, "install", "--no-deps", str(made))
    site = Path(run(python, "-c", "import site; print(site.getsitepackages()[0])"))
    ours = [path for path in sys.path if path.endswith("site-packages")]
    (site / "dependencies.pth").write_text("\n".join(ours))
    return made, python


def run(*command, cwd=None):
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip()


@pytest.mark.long
def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    made, _ = wheel
    names = zipfile.ZipFile(made).namelist()
    folders = {name.split("/")[0] for name in names}

    version = PROJECT["version"]
    assert {"anabranch", "anabranch_command.py", f"anabranch-{version}.dist-info"} == (
        folders
    )
    assert "anabranch/py.typed" in names
    assert "anabranch/dashboard/static/index.html" in names
    assert f"anabranch-{version}.dist-info/licenses/LICENSE" in names


@pytest.mark.long
def test_a_new_project_runs_and_passes_its_tests_with_the_wheel_alone(wheel, tmp_path):
    _, python = wheel
    command = python.with_name("anabranch")

    offered = run(command, "--help", cwd=tmp_path)
    run(command, "new", "prices", cwd=tmp_path)
    project = tmp_path / "prices"
    ran = run(command, "run", "program.py", "--on", "local", cwd=project)
    tested = run(python, "-m", "pytest", "-q", cwd=project)

    assert str(python.parent.parent) in run(
        python, "-c", "import anabranch; print(anabranch.__file__)", cwd=tmp_path
    )
    assert " run " in offered
    assert " bench " not in offered
    assert " apps " not in offered
    assert "Traceback" not in ran
    assert "passed" in tested
