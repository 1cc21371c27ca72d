"""The process that workers are forked from."""

import sys

from anabranch.engines.spark.daemon import prefer_installed_pyspark


def test_pyspark_is_read_from_where_it_is_installed(monkeypatch):
    zipped = "/site/pyspark/python/lib/pyspark.zip"
    monkeypatch.setattr(sys, "path", [zipped, "/site/py4j.zip", "/site"])

    prefer_installed_pyspark()

    assert ["/site/py4j.zip", "/site"] == sys.path


def test_a_zip_file_of_another_installation_stays(monkeypatch):
    paths = ["/opt/spark/python/lib/pyspark.zip", "/site"]
    monkeypatch.setattr(sys, "path", list(paths))

    prefer_installed_pyspark()

    assert paths == sys.path
