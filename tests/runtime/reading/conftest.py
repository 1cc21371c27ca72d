"""Read a source of a test file, and keep what could not be read."""

import pytest

from anabranch.graph.graph import Op
from anabranch.graph.site import Site
from anabranch.graph.sources import ReadFiles
from anabranch.runtime.failures import stop
from anabranch.runtime.reading.open import open_reader


@pytest.fixture
def reader_of():
    """
    The reader of some files, made without a program around it.
    """

    def make(path, form, kind, on_error=stop, **options):
        source = ReadFiles(str(path), form, kind, **options)
        return open_reader(Op("source", source, site=Site("job.py", 7)), on_error)

    return make
