"""Read a source of a test file, and keep what could not be read."""

import pytest

from anabranch.connectors.open import open_reader
from anabranch.graph.graph import Op
from anabranch.graph.site import Site
from anabranch.operators.sources import ReadFiles
from anabranch.runtime.failures import stop


@pytest.fixture
def reader_of():
    """
    The reader of some files, made without a program around it.
    """

    def make(path, form, kind, on_error=stop, **options):
        source = ReadFiles(str(path), form, kind, **options)
        return open_reader(Op("source", source, site=Site("job.py", 7)), on_error)

    return make


@pytest.fixture
def reader_back():
    """
    The items of a file, as the package itself reads them.
    """
    return lambda path, form, kind: list(
        open_reader(Op("back", ReadFiles(str(path), form, kind)), stop)
    )
