"""Ranges of compressed files."""

import gzip
import random

import pytest

from anabranch.connectors.files import input_files as ranges
from anabranch.connectors.files.input_files import let_go, read_range
from anabranch.errors import InputError

DATA = bytes(random.Random(3).choices(b"abc\n", k=100_000))


@pytest.fixture(params=["plain.txt", "packed.txt.gz"])
def path(request, tmp_path):
    found = tmp_path / request.param
    packed = found.suffix == ".gz"
    found.write_bytes(gzip.compress(DATA) if packed else DATA)
    yield found
    let_go([found])


def test_any_range_is_what_it_is_in_the_whole(path):
    choose = random.Random(5)
    for _ in range(40):
        start = choose.randrange(110_000)
        size = choose.randrange(1, 30_000)
        assert DATA[start : start + size] == read_range(path, start, size)


def test_ranges_in_order_unpack_a_file_once(tmp_path, monkeypatch):
    path = tmp_path / "packed.txt.gz"
    path.write_bytes(gzip.compress(DATA))
    opened = []

    def counting(path):
        opened.append(path)
        return gzip.GzipFile(path)

    monkeypatch.setattr(ranges.gzip, "open", counting)
    parts = [read_range(path, start, 999) for start in range(0, len(DATA), 999)]
    let_go([path])

    assert ([path], DATA) == (opened, b"".join(parts))


def test_only_some_files_are_kept_open(tmp_path):
    paths = [tmp_path / f"{n}.gz" for n in range(9)]
    for path in paths:
        path.write_bytes(gzip.compress(DATA))
        read_range(path, 0, 10)

    assert paths[5:] == [kept.path for kept in ranges._kept]
    let_go(paths)
    assert ranges._kept == []


def test_what_comes_before_the_damage_can_be_read(tmp_path):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(DATA)[:5000])
    before = read_range(path, 0, len(DATA))

    assert before
    assert DATA.startswith(before)
    with pytest.raises(InputError, match=r"cut\.gz must be a whole gzip file"):
        read_range(path, len(before), 1)
    with pytest.raises(InputError, match=r"cut\.gz must be a whole gzip file"):
        read_range(path, len(before) + 10, 1)
