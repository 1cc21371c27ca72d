"""Which files a path stands for: nothing is passed over in silence."""

from __future__ import annotations

import os

import pytest

from anabranch.connectors.files.input_files import input_files, open_file, why_no_file
from anabranch.errors import InputError


def named(paths):
    return [path.name for path in paths]


def test_the_files_of_a_directory_without_hidden_ones_and_directories(tmp_path):
    for name in ("b.csv", "a.csv", "_SUCCESS", ".part.tmp"):
        (tmp_path / name).touch()
    (tmp_path / "c.csv").mkdir()

    assert ["a.csv", "b.csv"] == named(input_files(str(tmp_path)))


@pytest.mark.parametrize("pattern", ["", "/*.csv", "/**/*.csv"])
def test_a_link_to_nowhere_is_among_the_files(tmp_path, pattern):
    (tmp_path / "a.csv").touch()
    (tmp_path / "b.csv").symlink_to("nowhere")
    (tmp_path / "c.csv").symlink_to("c.csv")

    files = input_files(f"{tmp_path}{pattern}")

    assert ["a.csv", "b.csv", "c.csv"] == named(files)
    assert why_no_file(files[0]) is None
    assert "a link to nowhere, which leads nowhere" in str(why_no_file(files[1]))
    assert "a link to c.csv, which leads nowhere" in str(why_no_file(files[2]))


def test_a_link_that_leads_somewhere_is_a_file(tmp_path):
    (tmp_path / "b.csv").touch()
    (tmp_path / "a.csv").symlink_to("b.csv")

    assert why_no_file(tmp_path / "a.csv") is None


def test_a_pipe_is_among_the_files_and_is_none(tmp_path):
    os.mkfifo(tmp_path / "a.csv")

    assert ["a.csv"] == named(input_files(str(tmp_path)))
    assert "a pipe" in str(why_no_file(tmp_path / "a.csv"))


@pytest.mark.parametrize("name", ["nowhere", "loop"])
def test_a_link_to_nowhere_that_is_the_path_itself_is_named_as_one(tmp_path, name):
    (tmp_path / "in").symlink_to("in" if name == "loop" else name)

    with pytest.raises(InputError, match="it is a link to"):
        input_files(str(tmp_path / "in"))


def test_a_circle_of_links_is_refused_for_the_same_file_would_come_again(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.csv").touch()
    (tmp_path / "one" / "two").symlink_to(tmp_path / "one")

    with pytest.raises(InputError, match="must be found once each"):
        input_files(f"{tmp_path}/**/*.csv")


def test_a_link_to_another_directory_is_no_circle(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.csv").touch()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "elsewhere")

    assert ["a.csv"] == named(input_files(f"{tmp_path}/in/**/*.csv"))


def test_a_pattern_does_not_pass_over_a_directory_that_is_closed(tmp_path, monkeypatch):
    for name in ("open", "closed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").touch()
    closed = tmp_path / "closed"
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed)

    with pytest.raises(InputError, match=f"{closed} must be readable; Permission"):
        input_files(f"{tmp_path}/*/a.csv")


@pytest.mark.parametrize("path", ["x" * 300, "x" * 300 + "/*.csv"])
def test_a_name_that_no_file_can_have_is_an_error_of_ours(path):
    with pytest.raises(InputError):
        input_files(path)


def test_a_file_that_vanished_after_it_was_found(tmp_path):
    gone = pytest.raises(InputError, match=r"gone\.csv must be readable; No such file")
    with gone, open_file(tmp_path / "gone.csv"):
        pass


def test_a_directory_in_the_place_of_a_file(tmp_path):
    refused = pytest.raises(InputError, match="must be readable; Is a directory")
    with refused, open_file(tmp_path):
        pass
