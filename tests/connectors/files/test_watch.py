"""Which files of a growing directory are complete."""

import os

import pytest

from anabranch.connectors.files.follow import SETTLE_S, FileWatch
from anabranch.errors import InputError

NOW_S = 1_000_000.0


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now_s = NOW_S

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


def write(path, text, at_s):
    path.write_text(text)
    os.utime(path, (at_s, at_s))


def names(paths):
    return [path.name for path in paths]


def test_old_files_are_complete_at_once_in_the_order_of_their_names(tmp_path, clock):
    for name in ("b", "a", "c"):
        write(tmp_path / name, "x", NOW_S - 100)

    assert ["a", "b", "c"] == names(FileWatch(str(tmp_path), clock, clock).new_files())


def test_a_file_is_given_out_once(tmp_path, clock):
    write(tmp_path / "a", "x", NOW_S - 100)
    watch = FileWatch(str(tmp_path), clock, clock)
    watch.new_files()

    assert [] == watch.new_files()


def test_a_new_file_has_to_be_left_alone_first(tmp_path, clock):
    watch = FileWatch(str(tmp_path), clock, clock)
    write(tmp_path / "a", "x", NOW_S)

    assert [] == watch.new_files()
    clock.now_s += SETTLE_S
    assert ["a"] == names(watch.new_files())


def test_every_change_makes_the_wait_begin_anew(tmp_path, clock):
    watch = FileWatch(str(tmp_path), clock, clock)
    write(tmp_path / "a", "x", NOW_S)
    watch.new_files()
    clock.now_s += SETTLE_S * 0.9
    write(tmp_path / "a", "xy", NOW_S)

    assert [] == watch.new_files()
    clock.now_s += SETTLE_S * 0.9
    assert [] == watch.new_files()
    clock.now_s += SETTLE_S * 0.1
    assert ["a"] == names(watch.new_files())


@pytest.mark.parametrize("name", [".a", "_a"])
def test_hidden_files_are_left_alone_until_they_are_renamed(tmp_path, clock, name):
    write(tmp_path / name, "x", NOW_S - 100)
    watch = FileWatch(str(tmp_path), clock, clock)

    assert [] == watch.new_files()
    (tmp_path / name).rename(tmp_path / "a")
    assert ["a"] == names(watch.new_files())


def test_a_file_that_grows_after_it_was_taken_is_refused(tmp_path, clock):
    write(tmp_path / "a", "x", NOW_S - 100)
    watch = FileWatch(str(tmp_path), clock, clock)
    watch.new_files()
    write(tmp_path / "a", "xy", NOW_S)

    with pytest.raises(InputError, match="had 1 bytes and has 2 now"):
        watch.new_files()


def test_a_file_that_was_taken_may_go_and_its_name_come_again(tmp_path, clock):
    write(tmp_path / "a", "x", NOW_S - 100)
    watch = FileWatch(str(tmp_path), clock, clock)
    watch.new_files()
    (tmp_path / "a").unlink()

    assert [] == watch.new_files()
    write(tmp_path / "a", "new", NOW_S - 50)
    assert ["a"] == names(watch.new_files())


def test_what_was_taken_by_an_earlier_watch_is_known(tmp_path, clock):
    write(tmp_path / "a", "x", NOW_S - 100)
    before = FileWatch(str(tmp_path), clock, clock)
    before.new_files()
    write(tmp_path / "b", "x", NOW_S - 100)

    after = FileWatch(str(tmp_path), clock, clock, before.taken)

    assert ["b"] == names(after.new_files())


def test_a_pattern_can_be_watched(tmp_path, clock):
    watch = FileWatch(str(tmp_path / "*.csv"), clock)
    write(tmp_path / "a.csv", "x", NOW_S - 100)
    write(tmp_path / "a.txt", "x", NOW_S - 100)

    assert ["a.csv"] == names(watch.new_files())


def test_a_link_to_nowhere_is_given_out_once_after_a_while(tmp_path, clock):
    watch = FileWatch(str(tmp_path), clock, clock)
    (tmp_path / "a").symlink_to("nowhere")

    assert [] == watch.new_files()
    clock.now_s += SETTLE_S
    assert ["a"] == names(watch.new_files())
    assert [] == watch.new_files()


def test_a_link_that_is_mended_is_a_new_file(tmp_path, clock):
    watch = FileWatch(str(tmp_path), clock, clock)
    (tmp_path / "a").symlink_to(".target")
    watch.new_files()
    clock.now_s += SETTLE_S
    watch.new_files()
    write(tmp_path / ".target", "x", NOW_S - 100)

    assert ["a"] == names(watch.new_files())


def test_a_link_whose_file_is_removed_after_it_was_read_does_no_harm(tmp_path, clock):
    write(tmp_path / ".target", "x", NOW_S - 100)
    (tmp_path / "a").symlink_to(".target")
    watch = FileWatch(str(tmp_path), clock, clock)
    watch.new_files()
    (tmp_path / ".target").unlink()

    assert [] == watch.new_files()


def test_a_directory_that_vanishes_is_an_error_of_ours(tmp_path, clock):
    (tmp_path / "in").mkdir()
    watch = FileWatch(str(tmp_path / "in"), clock)
    (tmp_path / "in").rmdir()

    with pytest.raises(InputError, match="in must be readable"):
        watch.new_files()


def test_a_directory_may_have_a_name_that_looks_like_a_pattern(tmp_path, clock):
    (tmp_path / "in[1]").mkdir()
    write(tmp_path / "in[1]" / "a", "x", NOW_S - 100)

    assert ["a"] == names(FileWatch(str(tmp_path / "in[1]"), clock).new_files())


def test_a_file_is_not_complete_because_the_clock_of_the_machine_was_set(tmp_path):
    steady, wall = Clock(), Clock()
    watch = FileWatch(str(tmp_path), steady, wall)
    write(tmp_path / "a", "x", NOW_S)
    assert [] == watch.new_files()

    wall.now_s += 3600
    write(tmp_path / "b", "x", NOW_S)  # before the clock was set, found afterwards
    assert [] == watch.new_files()
    steady.now_s += SETTLE_S
    wall.now_s += SETTLE_S
    assert ["a", "b"] == names(watch.new_files())


def test_a_clock_that_is_set_back_does_not_make_a_file_wait(tmp_path):
    steady, wall = Clock(), Clock()
    watch = FileWatch(str(tmp_path), steady, wall)
    write(tmp_path / "a", "x", NOW_S)
    watch.new_files()

    wall.now_s -= 3600
    steady.now_s += SETTLE_S
    assert ["a"] == names(watch.new_files())
