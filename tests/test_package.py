"""The package as it is published: version, licence, authors."""

from __future__ import annotations

import tomllib
from pathlib import Path

import anabranch as ab

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


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
    assert ["Programming Language :: Python :: 3.11"] == versions
    assert "Typing :: Typed" in PROJECT["classifiers"]
