"""A file through a noisy line: packed by Huffman's code, protected, sent, unpacked.

The code gives frequent bytes few bits, so how many bytes the encoder gives for one that
it takes, and the decoder takes for one that it gives, depends on the file. Between them
lie three operators of fixed rate: every half byte is protected by Hamming's code, the
line turns over a bit in one word of two, and the bits are put right again. This is the
Huffman application of the paper on hybrid scheduling, with real work in the middle.

It reads a book (Canterbury corpus, alice29.txt) from the folder `corpora` of the real
data, and a generated text where there is none.
"""

import heapq
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import anabranch as ab
from samples import SAMPLES, real_file, text_sample

Code = Mapping[int, str]  # from a symbol to its bits, as text of 0 and 1


def huffman_code(counts: Mapping[int, int]) -> dict[int, str]:
    """Return a code of the least total length: the two rarest are joined, again and again.

    >>> sorted(huffman_code({97: 5, 98: 2, 99: 1}).items())
    [(97, '1'), (98, '01'), (99, '00')]
    """
    queue = [(count, symbol, {symbol: ""}) for symbol, count in sorted(counts.items())]
    heapq.heapify(queue)
    if len(queue) == 1:
        return dict.fromkeys(counts, "0")
    while len(queue) > 1:
        few, _, left = heapq.heappop(queue)
        more, tie, right = heapq.heappop(queue)
        joined = {symbol: "0" + bits for symbol, bits in left.items()}
        joined |= {symbol: "1" + bits for symbol, bits in right.items()}
        heapq.heappush(queue, (few + more, tie, joined))
    return queue[0][2]


class Encode(ab.Operator):
    """Gives full bytes as soon as the bits of the code fill them."""

    def __init__(self, code: Code) -> None:
        self.code = code

    def setup(self) -> None:
        """Start without a bit."""
        self.bits = ""

    def process(self, symbol: int) -> Iterator[int]:
        """Add the bits of a symbol."""
        self.bits += self.code[symbol]
        while len(self.bits) >= 8:
            yield int(self.bits[:8], 2)
            self.bits = self.bits[8:]

    def finish(self) -> Iterator[int]:
        """Fill up the last byte with zeros."""
        if self.bits:
            yield int(self.bits.ljust(8, "0"), 2)


class Decode(ab.Operator):
    """Gives a symbol as soon as its bits are complete, until all have been given."""

    def __init__(self, code: Code, symbols: int) -> None:
        self.symbol_of = {bits: symbol for symbol, bits in code.items()}
        self.symbols = symbols

    def setup(self) -> None:
        """Start without a bit."""
        self.bits = ""
        self.given = 0

    def process(self, byte: int) -> Iterator[int]:
        """Take the eight bits of a byte, one after the other."""
        for bit in format(byte, "08b"):
            self.bits += bit
            if self.bits in self.symbol_of and self.given < self.symbols:
                yield self.symbol_of[self.bits]
                self.bits = ""
                self.given += 1


# Hamming's code: bits 1, 2 and 4 of seven are the parities that make the places of all
# ones add up (without carry) to nothing; an error adds up to its own place.
PLACES = (3, 5, 6, 7)


def places_of_ones(word: int) -> int:
    """Return the places of the ones in a word of seven bits, added without carry."""
    total = 0
    for place in range(1, 8):
        if word >> place & 1:
            total ^= place
    return total


def hamming(half: int) -> int:
    """Return four bits with three parities: at their places, from 1 to 7."""
    word = sum((half >> n & 1) << place for n, place in enumerate(PLACES))
    missing = places_of_ones(word)
    return word | sum((missing >> n & 1) << (1 << n) for n in range(3))


def put_right(word: int) -> int:
    """Return the four bits of a word in which at most one bit is wrong."""
    wrong = places_of_ones(word)
    right = word ^ (1 << wrong if wrong else 0)
    return sum((right >> place & 1) << n for n, place in enumerate(PLACES))


def protect(bytes_: list[int]) -> list[int]:
    """Return a byte as two words, its upper half first."""
    (byte,) = bytes_
    return [hamming(byte >> 4), hamming(byte & 15)]


def disturb(words: list[int]) -> list[int]:
    """Return two words, one of which has a bit turned over: the words say which."""
    victim, place = words[0] // 2 % 2, 1 + sum(words) % 7
    return [word ^ (1 << place if n == victim else 0) for n, word in enumerate(words)]


def restore(words: list[int]) -> list[int]:
    """Return two words as one byte."""
    upper, lower = words
    return [put_right(upper) << 4 | put_right(lower)]


def symbols_of(path: Path) -> Iterator[int]:
    """Yield the bytes of a file."""
    return iter(path.read_bytes())


def packed(path: Path, code: Code) -> ab.Stream:
    """Return the bytes of a file in the code."""
    read = ab.generate(partial(symbols_of, path), int, name="file")
    return read.apply(Encode, code, name="encode")


def program(path: Path | None = None) -> ab.Result:
    """Return what arrives at the other end."""
    file = path or real_file("corpora", "canterbury", "alice29.txt") or sample_file()
    counts = Counter(file.read_bytes())
    code = huffman_code(counts)
    words = packed(file, code).block(protect, pop=1, push=2, name="protect")
    sent = words.block(disturb, pop=2, push=2, name="disturb")
    received = sent.block(restore, pop=2, push=1, name="restore")
    decoded = received.apply(Decode, code, counts.total(), name="decode")
    return decoded.to_list(name="arrived")


def sample_file(folder: Path = SAMPLES, words: int = 700, seed: int = 29) -> Path:
    """Write a text of a few words, some of them often."""
    chance = random.Random(seed)
    said = ["a", "river", "that", "leaves", "its", "bed", "and", "rejoins", "it", "Ω"]
    line = " ".join(chance.choices(said, weights=range(10, 0, -1), k=words))
    return text_sample("huffman.txt", [line], folder)
