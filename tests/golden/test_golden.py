"""Plans, explanations and outputs are those of the golden set.

The programs run in a process of their own: what other tests import, trust or leave in
the working directory has no part in it.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from difflib import unified_diff

import pytest

from tests.golden.make import (
    HERE,
    NEEDS_OPENCV,
    ROOT,
    SEEDS,
    read_apps,
    read_generated,
)

ADVICE = "If that is meant: python -m tests.golden.make, and commit what it writes."
SHOWN_LINES = 60
SHOWN_PROGRAMS = 5


def describe_now(folder, *options):
    """Write the texts of some programs, as the code is now, into a folder."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-m", "tests.golden.make", folder, *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr[-5000:]


def describe_differences(golden, now):
    """Return which programs differ from the golden set, each with a diff."""
    differing = [
        name for name in golden | now if golden.get(name, "") != now.get(name, "")
    ]
    if not differing:
        return ""
    first = f"{len(differing)} of {len(golden)} programs differ from tests/golden: "
    parts = [f"{first}{', '.join(differing)}", ADVICE]
    for name in differing[:SHOWN_PROGRAMS]:
        before, after = (texts.get(name, "").splitlines() for texts in (golden, now))
        names = (f"{name}, golden", f"{name}, now")
        lines = unified_diff(before, after, *names, n=1, lineterm="")
        parts += list(lines)[:SHOWN_LINES]
    return "\n".join(parts)


# From Python 3.12 on `sum` makes up for rounding, and so do the means of windows; these
# outputs differ in their last bits. On 3.11 -> later.
SINCE_3_12 = {
    "93aebe8c7a4ef137": "0dba3ac1e8429113",
    "b05ec4330a532862": "292f07656f9da9a7",
    "a537370a8b04d0f8": "0cc65d8d0a0ccf79",
    "088c203f8ba041e7": "5d40b1a71a172a66",
    "0d3e593379da6055": "b799a668d60181b4",
    "cd0c4d1bfcdf5186": "0a3c5f3db602e037",
    "f52d4712ea914151": "4ed8df0dc5e40906",
    "e165ddb86e6c0a66": "9e01b0227473efff",
}
OTHER_PLANS = {  # whose plans are of Python 3.11
    "decoder.program",  # its sums are too long to compile where they make up for rounding
    "nexmark.program",  # a text of two lines counts as another one
}


def fit_to_python(text):
    """Return a golden text as the Python in use must give it."""
    if sys.version_info >= (3, 12):
        for before, later in SINCE_3_12.items():
            text = text.replace(before, later)
    return text


def assert_golden(golden, now):
    golden = {name: fit_to_python(text) for name, text in golden.items()}
    difference = describe_differences(golden, now)
    if difference:
        pytest.fail(difference, pytrace=False)


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
def test_applications_have_the_plans_and_outputs_of_the_golden_set(tmp_path, every):
    describe_now(tmp_path, "--apps", str(every))

    golden = read_apps(HERE)
    if importlib.util.find_spec("cv2") is None:
        left_out = NEEDS_OPENCV
        golden = {n: t for n, t in golden.items() if n.split(".")[0] not in left_out}
    chosen = dict(list(golden.items())[::every])
    now = read_apps(tmp_path)
    for name in OTHER_PLANS if sys.version_info >= (3, 12) else ():
        chosen.pop(name, None)
        now.pop(name, None)
    assert_golden(chosen, now)


@pytest.mark.parametrize("every", [25, pytest.param(1, marks=pytest.mark.long)])
def test_generated_programs_have_the_plans_and_outputs_of_the_golden_set(
    tmp_path, every
):
    describe_now(tmp_path, "--generated", str(every))

    golden = read_generated(HERE)
    sample = {f"generated {seed}" for seed in SEEDS[::every]}
    assert_golden(
        {name: text for name, text in golden.items() if name in sample},
        read_generated(tmp_path),
    )


def test_a_difference_names_the_program_and_shows_the_lines():
    golden = {"a": "same\n", "b": "order: strict\nrest\n"}
    now = {"a": "same\n", "b": "order: none\nrest\n"}

    assert [
        "1 of 2 programs differ from tests/golden: b",
        ADVICE,
        "--- b, golden",
        "+++ b, now",
        "@@ -1,2 +1,2 @@",
        "-order: strict",
        "+order: none",
        " rest",
    ] == describe_differences(golden, now).splitlines()


def test_a_program_that_is_missing_differs():
    assert "1 of 1 programs differ" in describe_differences({"a": "text"}, {})
    assert "" == describe_differences({"a": "text"}, {"a": "text"})


def test_the_golden_set_has_every_application_and_300_generated_programs():
    apps = {path.stem for path in (ROOT / "apps").glob("*.py")}

    assert apps == {name.split(".")[0] for name in read_apps(HERE)}
    assert [f"generated {seed}" for seed in range(300)] == list(read_generated(HERE))
