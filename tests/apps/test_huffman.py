"""The round trip is the file itself; the packed size is the least that there is."""

from __future__ import annotations

import heapq
import json
from collections import Counter

import pytest

import anabranch as ab
from tests.apps.loading import ENGINES, load_app


@pytest.fixture(scope="module")
def huffman():
    return load_app("huffman")


@pytest.fixture(scope="module")
def sample(huffman, tmp_path_factory):
    return huffman.sample_file(tmp_path_factory.mktemp("sample"))


def least_bits(counts):
    """
    The sum of all joint weights, without any code.
    """
    weights = list(counts.values())
    heapq.heapify(weights)
    bits = 0
    while len(weights) > 1:
        joint = heapq.heappop(weights) + heapq.heappop(weights)
        bits += joint
        heapq.heappush(weights, joint)
    return bits


def packed_size(huffman, path):
    code = huffman.huffman_code(Counter(path.read_bytes()))
    return len(ab.testing.outputs(huffman.packed(path, code)))


@pytest.mark.parametrize("on", ENGINES)
def test_the_sample_arrives_as_it_was(huffman, sample, on):
    sink = huffman.program(sample)

    ab.run(sink, on=on)

    assert sample.read_bytes() == bytes(sink.items)


@pytest.mark.parametrize("text", [b"a", b"ab", b"abc", b"aaaabbc", bytes(range(256))])
def test_small_files_arrive_as_they_were(huffman, tmp_path, text):
    (tmp_path / "file").write_bytes(text)
    sink = huffman.program(tmp_path / "file")

    ab.run(sink, on="sequential")

    assert text == bytes(sink.items)


def test_the_line_turns_bits_over_at_either_word(huffman):
    turned = {
        tuple(a != b for a, b in zip(words, huffman.disturb(words), strict=True))
        for words in ([n * 2, m * 2] for n in range(8) for m in range(8))
    }

    assert {(True, False), (False, True)} == turned


def test_the_packed_sample_has_the_least_size(huffman, sample):
    bits = least_bits(Counter(sample.read_bytes()))

    assert -(-bits // 8) == packed_size(huffman, sample)


def test_every_single_wrong_bit_is_put_right(huffman):
    words = [(half, huffman.hamming(half)) for half in range(16)]

    assert 16 == len({word for _, word in words})
    assert all(
        half == huffman.put_right(word ^ 1 << place)
        for half, word in words
        for place in range(1, 8)
    )


@pytest.mark.parametrize("name", ["canterbury/grammar.lsp", "canterbury/xargs.1"])
def test_real_files_arrive_and_have_the_known_size(huffman, data, name):
    known = json.loads((data / "corpora" / "expected.json").read_text())[name]
    path = data / "corpora" / name
    sink = huffman.program(path)

    ab.run(sink, on="sequential")

    assert path.read_bytes() == bytes(sink.items)
    assert known["huffman_bytes"] == packed_size(huffman, path)


def test_the_code_of_a_book_has_the_known_number_of_bits(huffman, data):
    known = json.loads((data / "corpora" / "expected.json").read_text())
    text = (data / "corpora" / "canterbury" / "alice29.txt").read_bytes()
    counts = Counter(text)

    code = huffman.huffman_code(counts)

    bits = sum(counts[symbol] * len(code[symbol]) for symbol in counts)
    assert known["canterbury/alice29.txt"]["huffman_bits"] == bits
