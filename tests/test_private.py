"""What is unpickled or executed lies where only this user can write."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from anabranch.engines.spark import session
from anabranch.epochs.state.restore import local_directory
from anabranch.errors import EngineError
from anabranch.private import make_private, private_directory, why_not_private
from anabranch.runtime.compiled.build import kernel_folder

STRANGER = 12345


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A temporary folder that all users share."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def mode_of(path: Path) -> str:
    return oct(path.stat().st_mode & 0o777)


def test_each_level_of_a_private_directory_is_for_its_user_alone(shared):
    path = private_directory("spark", "17")

    assert shared / f"anabranch-{os.geteuid()}" / "spark" / "17" == path
    assert ["0o700"] * 3 == [mode_of(one) for one in (path, *path.parents[:2])]
    assert path == private_directory("spark", "17")


def test_a_directory_that_others_can_read_is_closed(tmp_path):
    open_one = tmp_path / "open"
    open_one.mkdir(mode=0o755)

    assert "0o700" == mode_of(make_private(open_one))


def test_a_directory_that_others_can_write_is_refused(shared):
    planted = shared / f"anabranch-{os.geteuid()}"
    planted.mkdir()
    planted.chmod(0o777)

    with pytest.raises(EngineError, match=r"others can write to it.*TMPDIR"):
        private_directory("spark")


def test_a_link_is_refused(shared, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (shared / f"anabranch-{os.geteuid()}").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(EngineError, match="it is a link"):
        private_directory("spark")

    assert [] == list((tmp_path / "elsewhere").iterdir())


def test_a_file_in_its_place_is_refused(shared):
    (shared / f"anabranch-{os.geteuid()}").touch()

    with pytest.raises(EngineError, match="File exists"):
        private_directory("spark")


def test_a_directory_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    monkeypatch.setattr(Path, "lstat", lambda _: os.stat_result(FOREIGN))

    assert f"it belongs to user 7, not to {STRANGER}" == why_not_private(tmp_path)


FOREIGN = (0o40700, 1, 1, 2, 7, 7, 0, 0, 0, 0)  # a directory of user 7


def test_a_folder_without_a_sticky_bit_is_refused(tmp_path):
    """
    There, others could move the directory away and put theirs in its place.
    """
    folder = tmp_path / "anybody"
    folder.mkdir()
    folder.chmod(0o777)

    with pytest.raises(EngineError, match="put another one in its place"):
        make_private(folder / "mine")


def test_everything_that_is_unpickled_or_executed_lies_there(shared, monkeypatch):
    monkeypatch.delenv("ANABRANCH_KERNELS", raising=False)
    own = private_directory()

    logging = session._quiet().partition("file:")[2]

    assert Path(logging).is_relative_to(own)
    assert kernel_folder() == own / "kernels"
    assert local_directory("1a2b").is_relative_to(own)
    assert [own.name] == [path.name for path in shared.iterdir()]


CLUSTERS = {
    "standalone": {"SPARK_EXECUTOR_DIRS": "{0}:{1}"},
    "YARN": {"CONTAINER_ID": "container_17", "LOCAL_DIRS": "{0},{1}"},
}


@pytest.mark.parametrize("names", CLUSTERS.values(), ids=CLUSTERS)
def test_states_on_a_cluster_go_with_the_application(
    names, shared, tmp_path, monkeypatch
):
    disks = [tmp_path / "disk0", tmp_path / "disk1"]
    for name, value in names.items():
        monkeypatch.setenv(name, value.format(*disks))

    assert local_directory("1a2b").is_relative_to(disks[0])
    assert [] == list(shared.iterdir())


def test_the_settings_of_the_jvm_follow_no_link(shared, tmp_path):
    victim = tmp_path / "precious"
    victim.write_text("precious")
    planted = private_directory("spark") / "log4j2.properties"
    planted.symlink_to(victim)

    session._quiet()

    assert "precious" == victim.read_text()
    assert not planted.is_symlink()


def test_kernels_are_compiled_without_a_folder_that_is_not_safe(tmp_path, monkeypatch):
    tmp_path.chmod(0o777)
    monkeypatch.setenv("ANABRANCH_KERNELS", str(tmp_path))

    assert kernel_folder() is None
