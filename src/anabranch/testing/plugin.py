"""The pytest plugin: the kit as fixtures, found by pytest once Anabranch is installed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing import assertions


@pytest.fixture(name="assert_same_everywhere")
def same_everywhere() -> Callable[..., None]:
    """Return `ab.testing.assert_same_everywhere`."""
    return assertions.assert_same_everywhere
