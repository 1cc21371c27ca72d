"""Every error has a code of its own and a section in the documentation."""

import importlib
import pkgutil
from collections import Counter
from pathlib import Path

import pytest

import anabranch.cli
from anabranch.errors import AnabranchError

PAGE = Path(__file__).resolve().parent.parent / "docs" / "errors.md"


def subclasses(cls):
    for each in cls.__subclasses__():
        yield each
        yield from subclasses(each)


@pytest.fixture(scope="module")
def errors():
    for module in pkgutil.iter_modules(anabranch.cli.__path__, "anabranch.cli."):
        importlib.import_module(module.name)
    found = set(subclasses(AnabranchError))
    return [each for each in found if each.__module__.startswith("anabranch.")]


def test_every_error_has_a_code_of_its_own(errors):
    codes = Counter(each.code for each in errors)

    assert len(errors) >= 13
    assert AnabranchError.code not in codes
    assert {1} == set(codes.values())


def test_every_code_has_a_section_and_a_row(errors):
    text = PAGE.read_text()

    for each in errors:
        assert f"\n## {each.code}\n\n`{each.__name__}`" in text
        anchor = each.code.lower()
        assert f"| [{each.code}](#{anchor}) | `{each.__name__}` |" in text
