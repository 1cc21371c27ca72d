"""Examples, applications and a script with classes run as `python script.py`.

They run without annotations and without an activated environment, on a Spark session
that one of them made. All of them share one process: a JVM starts slowly.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.apps.loading import APPS

HERE = Path(__file__).parent
EXAMPLES = sorted((APPS.parent / "examples").glob("*.py"))
TRADES = "ts,symbol,price,volume\n1,A,10.0,5\n2,B,11.0,1\n3,A,12.0,5\n"
SPARK = "--master local[2] --conf spark.ui.enabled=false pyspark-shell"


def run_as_main(folder, *scripts):
    """Run scripts in one process and return what it printed, by line."""
    (folder / "trades").mkdir()
    (folder / "trades" / "1.csv").write_text(TRADES)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    env = {**os.environ, "PYTHONPATH": path, "PYSPARK_SUBMIT_ARGS": SPARK}
    env["ANABRANCH_DATA"] = str(folder / "nowhere")
    env.pop("PYSPARK_PYTHON", None)
    env.pop("PYSPARK_DRIVER_PYTHON", None)
    done = subprocess.run(
        [sys.executable, HERE / "as_main.py", folder, *scripts],
        env=env,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert 0 == done.returncode, done.stderr[-5000:]
    return done.stdout.splitlines()


@pytest.mark.spark
def test_a_script_an_example_and_an_application_run_as_main(tmp_path):
    scripts = [*EXAMPLES[:1], HERE / "orders.py", APPS / "finance.py"]

    printed = run_as_main(tmp_path, *scripts)

    assert [f"ran {s.stem}" for s in scripts] == [p for p in printed if "ran " in p]


@pytest.mark.long
@pytest.mark.spark
def test_every_example_and_application_runs_as_main(tmp_path):
    scripts = [*EXAMPLES, *sorted(APPS.glob("*.py"))]
    if importlib.util.find_spec("cv2") is None:
        scripts.remove(APPS / "lane_detection.py")

    printed = run_as_main(tmp_path, *scripts)

    assert [f"ran {s.stem}" for s in scripts] == [p for p in printed if "ran " in p]
