"""The notebook that comes with the examples runs in a real kernel, and shows itself."""

import asyncio
import warnings
from pathlib import Path

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of Jupyter's packages, about each other
    import nbclient
    import nbformat

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "first_program.ipynb"


async def execute(notebook):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await nbclient.NotebookClient(notebook, timeout=300).async_execute()


@pytest.fixture(scope="module")
def outputs():
    """What each cell with code has shown, in order."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    asyncio.run(execute(notebook))
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def test_a_program_is_shown_as_its_graph(outputs):
    (shown,) = outputs[1]

    assert shown.data["image/svg+xml"].startswith("<svg")
    assert "scan" in shown.data["image/svg+xml"]
    assert shown.data["text/plain"].startswith("<Result to_list")


def test_a_run_shows_its_end_and_its_result(outputs):
    progress, result = outputs[2]

    assert "finished</b> on local" in progress.data["text/html"]
    assert "10,000 items from from_iterable" in progress.data["text/html"]
    assert result.data["text/plain"].startswith(f"({count_alarms()},")


def count_alarms() -> int:
    """What the program says, as a loop."""
    means, found = dict.fromkeys(range(3), 20.0), 0
    for n in range(10_000):
        celsius = 20.0 + n % 7
        means[n % 3] += (celsius - means[n % 3]) / 10
        found += celsius - means[n % 3] > 2.0
    return found


def test_explain_names_the_functions_of_a_cell(outputs):
    (printed,) = outputs[3]

    assert "r0: from_iterable" in printed.text
    assert "scan" in printed.text
