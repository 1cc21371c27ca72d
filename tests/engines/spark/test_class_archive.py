"""The archive of Spark's classes: used if it is whole and ours, made if it is missing."""

import atexit
import os
import subprocess

import pytest

from anabranch.engines.spark import class_archive
from anabranch.engines.spark.class_archive import (
    archive_options,
    find_archive,
    find_directory,
    key_of,
    make,
    start_making,
)
from anabranch.engines.spark.session import (
    check_java,
    choose_settings,
    java_options,
    read_defaults,
)

JAVA = "/usr/bin/java"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "anabranch" / "classes"


@pytest.fixture
def asked(monkeypatch):
    """What is to be made when the process ends."""
    found = []
    monkeypatch.setattr(atexit, "register", lambda *call: found.append(call))
    monkeypatch.setattr(atexit, "unregister", lambda _: found.clear())
    return found


def put_archive(cache, content=b"classes", size=None):
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    size = len(content) if size is None else size
    path = cache / f"{key_of(JAVA)}-{size}.jsa"
    path.write_bytes(content)
    return path


def test_the_directory_is_private(cache):
    assert cache == find_directory()
    assert 0o700 == cache.stat().st_mode & 0o777


def test_a_directory_that_others_can_read_is_not_used(cache, asked):
    put_archive(cache)
    cache.chmod(0o755)

    assert "" == archive_options(JAVA, "")
    assert [] == asked


def test_no_directory_is_no_error(tmp_path, monkeypatch, asked):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    assert "" == archive_options(JAVA, "")
    assert [] == asked


def test_a_missing_archive_is_made_once_when_the_process_ends(cache, asked):
    assert "" == archive_options(JAVA, "")
    assert "" == archive_options(JAVA, "")

    assert [(start_making, cache / f"{key_of(JAVA)}.draft")] == asked


def test_an_archive_that_is_there_is_used(cache, asked):
    path = put_archive(cache)

    assert f"-XX:SharedArchiveFile={path}" in archive_options(JAVA, "").split()
    assert [] == asked


def test_an_archive_that_was_cut_short_is_made_anew(cache, asked):
    put_archive(cache, b"clas", size=7)

    assert "" == archive_options(JAVA, "")
    assert 1 == len(asked)


OWN = ["-XX:SharedArchiveFile=own.jsa", "-Xshare:off", "-XX:ArchiveClassesAtExit=own"]


@pytest.mark.parametrize("option", OWN)
def test_who_says_something_about_archives_is_left_alone(
    cache, asked, monkeypatch, option
):
    put_archive(cache)

    assert "" == archive_options(JAVA, option)
    monkeypatch.setenv("JDK_JAVA_OPTIONS", option)
    assert "" == archive_options(JAVA, "")
    assert [] == asked


def test_another_class_path_has_another_archive(monkeypatch):
    before = key_of(JAVA)
    monkeypatch.setenv("SPARK_DIST_CLASSPATH", "/opt/more.jar")

    assert before != key_of(JAVA)


def test_an_archive_appears_when_it_is_whole_and_unused_ones_go(cache, monkeypatch):
    draft = find_directory() / "new.draft"
    unused, used = cache / "old-1.jsa", cache / "other-1.jsa"
    for path in (unused, used):
        path.write_bytes(b"x")
    os.utime(unused, (0, 0))

    def write(options):
        assert options.startswith(f"-XX:ArchiveClassesAtExit={draft} ")
        draft.write_bytes(b"whole")

    monkeypatch.setattr(class_archive, "_run_small_job", write)
    make(draft)

    assert cache / "new-5.jsa" == find_archive(draft)
    assert [False, False, True] == [p.exists() for p in (draft, unused, used)]


def test_a_job_that_fails_leaves_no_archive(cache, monkeypatch):
    draft = find_directory() / "new.draft"

    def fail(_):
        draft.write_bytes(b"half")
        raise BrokenPipeError

    monkeypatch.setattr(class_archive, "_run_small_job", fail)
    with pytest.raises(BrokenPipeError):
        make(draft)

    assert [] == [*cache.glob("new*.jsa"), *cache.glob("*.draft")]


def test_java_starts_with_an_archive_that_is_none(cache):
    java = check_java()
    options = archive_options(java, "")
    path = cache / f"{key_of(java)}-7.jsa"
    path.write_bytes(b"classes")

    options = archive_options(java, "").split()
    done = subprocess.run(
        [java, *options, "-version"], capture_output=True, check=False
    )

    assert f"-XX:SharedArchiveFile={path}" in options
    assert 0 == done.returncode
    assert b"" == done.stdout


DEFAULTS = """
# a comment
spark.master            local[4]
spark.driver.extraJavaOptions\t-Dmine=1 -XX:TieredStopAtLevel=4
spark.ui.enabled=false
"""


def test_java_options_of_the_user_are_kept_and_come_last(cache, tmp_path, monkeypatch):
    (tmp_path / "spark-defaults.conf").write_text(DEFAULTS)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    put_archive(cache)

    assert "local[4]" == read_defaults()["spark.master"]
    assert "false" == read_defaults()["spark.ui.enabled"]
    chosen = choose_settings(None, read_defaults(), JAVA)
    options = chosen["spark.driver.extraJavaOptions"].split()
    assert ["-Dmine=1", "-XX:TieredStopAtLevel=4"] == options[-2:]
    assert "-XX:TieredStopAtLevel=1" not in options


def test_without_defaults_there_are_ours_alone(cache, tmp_path, monkeypatch, asked):
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))

    assert {} == read_defaults()
    assert "-XX:TieredStopAtLevel=1" in java_options(JAVA).split()
