"""Paths as users give them: plain, `file:` URLs, and URLs that no path can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.graph.paths import plain_path, why_not_path

PLAIN = {
    "a plain path stays as it is": ("in/x.csv", "in/x.csv"),
    "a pattern too": ("in/*.csv", "in/*.csv"),
    "a Path is its text": (Path("/in/x.csv"), "/in/x.csv"),
    "a file URL is its path": ("file:///in/x.csv", "/in/x.csv"),
    "one slash is enough": ("file:/in/x.csv", "/in/x.csv"),
    "a file URL that Path has taken apart": (Path("file:///in/x.csv"), "/in/x.csv"),
    "localhost is here": ("file://localhost/in/x.csv", "/in/x.csv"),
    "schemes are not case sensitive": ("FILE:///in/x.csv", "/in/x.csv"),
    "a file URL may hold what Path.as_uri encodes": (
        Path("/in/a b%ä?.csv").as_uri(),
        "/in/a b%ä?.csv",
    ),
    "a file URL may be a pattern": ("file:///in/*.c?v", "/in/*.c?v"),
    "a time is no scheme": ("12:30.csv", "12:30.csv"),
    "nor is any name before a colon": ("a:b.csv", "a:b.csv"),
    "a local folder that looks like a URL": ("./s3:/x", "./s3:/x"),
}


@pytest.mark.parametrize(("given", "path"), PLAIN.values(), ids=PLAIN)
def test_a_path_of_this_machine(given, path):
    assert path == plain_path(given)
    assert why_not_path(plain_path(given)) is None


def test_a_tilde_is_the_home_directory(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")

    assert "/home/ada/out" == plain_path("~/out")


REFUSED = {
    "s3://bucket/x.csv": "scheme s3",
    "S3A://bucket/x.csv": "scheme S3A",
    "hdfs://nn:9000/x": "scheme hdfs",
    "hdfs:/x": "scheme hdfs",
    "hdfs:x": "scheme hdfs",
    "gs:bucket/x": "scheme gs",
    "abfss://c@a.dfs.core.windows.net/x": "scheme abfss",
    "dbfs:/x": "scheme dbfs",
    "https://example.org/x.csv": "scheme https",
    "made-up+1.0://x": "scheme made-up+1.0",
    " s3://bucket/x": "scheme s3",
    "file://elsewhere/x.csv": "host 'elsewhere'",
    "file://x.csv": "without an absolute path",
    "file:x.csv": "without an absolute path",
    "file:": "without an absolute path",
    "": "empty",
    "a\0b": "NUL",
    None: "NoneType",
    b"x": "bytes",
    3: "int",
}


@pytest.mark.parametrize(("given", "why"), REFUSED.items(), ids=map(repr, REFUSED))
def test_what_names_no_file_of_this_machine(given, why):
    refused = why_not_path(plain_path(given))

    assert refused is not None
    assert why in refused


def test_a_url_that_path_has_taken_apart_is_still_one():
    assert "scheme s3" in why_not_path(plain_path(Path("s3://bucket/x.csv")))
