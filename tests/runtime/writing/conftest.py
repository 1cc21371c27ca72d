"""Read back what a writer wrote."""

import pytest

from anabranch.graph.graph import Op
from anabranch.graph.sources import ReadFiles
from anabranch.runtime.failures import stop
from anabranch.runtime.reading.open import open_reader


@pytest.fixture
def reader_back():
    """
    The items of a file, as the package itself reads them.
    """
    return lambda path, form, kind: list(
        open_reader(Op("back", ReadFiles(str(path), form, kind)), stop)
    )
