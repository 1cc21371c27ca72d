"""Which files are the user's own."""

from __future__ import annotations

import cProfile
import os
import sys

import numpy as np
import pytest

import anabranch as ab
from anabranch.graph.site import is_users_file, is_users_module

LIBRARIES = {
    "Python": os.__file__,
    "a package": np.__file__,
    "Anabranch": ab.__file__,
    "another environment": "/opt/base/lib/python3.11/site-packages/pandas/core.py",
    "a package of Debian": "/usr/lib/python3/dist-packages/numpy/matlib.py",
    "the site of a user": "/home/ann/.local/lib/python3.11/site-packages/six.py",
}
OWN = {
    "a script": "/home/ann/jobs/cool.py",
    "a cell of a notebook": "<ipython-input-1>",
    "a folder with a similar name": "/home/ann/my-site-packages/cool.py",
}


@pytest.mark.parametrize("file", LIBRARIES.values(), ids=LIBRARIES)
def test_a_file_of_a_library_is_not_the_users(file):
    assert not is_users_file(file)


@pytest.mark.parametrize("file", OWN.values(), ids=OWN)
def test_any_other_file_is_the_users(file):
    assert is_users_file(file)


def test_a_script_is_the_users_also_when_a_library_runs_it(monkeypatch):
    """
    As `python -m cProfile script.py` does.
    """
    is_users_module.cache_clear()
    monkeypatch.setitem(sys.modules, "__main__", cProfile)

    assert is_users_module("__main__")
    assert not is_users_module("cProfile")
