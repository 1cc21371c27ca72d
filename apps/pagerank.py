"""PageRank: how often a reader who clicks at random would be on each page.

The reader follows a link of the page, or (with probability 0.15, and where there is no
link) turns to any page. The ranks are multiplied by the matrix of links again and again
until they hardly change. As in the kernel of the paper on safe data parallelism, MulAdd
multiplies by some rows of the matrix, many of these at once, and Add puts the next ranks
together; where the paper's graph has a feedback loop, there is `iterate` here.

It reads who voted for whom in Wikipedia (SNAP, 103,689 links) from the folder `graphs`
of the real data, and a generated graph where there is none.
"""

import random
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import anabranch as ab
from samples import SAMPLES, real_file, text_sample

FOLLOW = 0.85
ENOUGH = 1e-12  # change for each page
BLOCKS = 8


class Link(NamedTuple):
    """A link from page to page."""

    source: int
    target: int


class Rows(NamedTuple):
    """Some rows of the matrix, those of the pages from `first` on, and all ranks."""

    pages: Any  # of these rows
    first: int
    sources: Any  # of the links to these pages
    targets: Any
    weights: Any
    ranks: Any
    change: float = float("inf")


class Product(NamedTuple):
    """What the links give to the pages of some rows."""

    rows: Rows
    received: Any


class Rank(NamedTuple):
    """The rank of a page."""

    page: int
    rank: float


def link(line: str) -> Iterator[Link]:
    """Yield the link in a line, unless it is a comment."""
    if not line.startswith("#"):
        source, target = line.split()[:2]
        yield Link(int(source), int(target))


class Matrix(ab.Operator):
    """Collects the links and cuts their matrix into blocks of rows."""

    def setup(self) -> None:
        """Start without a link."""
        self.links = array("q")  # in turn, from where and to where

    def process(self, link: Link) -> Iterator[Rows]:
        """Keep a link until all have come."""
        self.links.extend(link)
        return iter(())

    def finish(self) -> Iterator[Rows]:
        """Yield the rows, with equal ranks for all pages."""
        pages, numbers = np.unique(np.array(self.links, np.int64), return_inverse=True)
        sources, targets = numbers.reshape(-1, 2).T
        weights = 1.0 / np.bincount(sources, minlength=len(pages))[sources]
        ranks = np.full(len(pages), 1 / len(pages))
        for block in np.array_split(np.arange(len(pages)), BLOCKS):
            mine = np.isin(targets, block)
            yield Rows(
                pages[block],
                int(block[0]),
                sources[mine],
                targets[mine] - block[0],
                weights[mine],
                ranks,
            )


def multiply(rows: Rows) -> Product:
    """Return what the pages of these rows receive over links."""
    given = rows.ranks[rows.sources] * rows.weights
    return Product(rows, np.bincount(rows.targets, given, minlength=len(rows.pages)))


class Add(ab.Operator):
    """Puts the products together; what got lost at pages without links goes to all."""

    def setup(self) -> None:
        """Start without a product."""
        self.products: list[Product] = []

    def process(self, product: Product) -> Iterator[Rows]:
        """Keep a product until all have come."""
        self.products.append(product)
        return iter(())

    def finish(self) -> Iterator[Rows]:
        """Yield the rows with the next ranks."""
        received = np.concatenate([product.received for product in self.products])
        everywhere = 1 - FOLLOW * received.sum()
        ranks = FOLLOW * received + everywhere / len(received)
        change = float(np.abs(ranks - self.products[0].rows.ranks).sum())
        for product in self.products:
            yield product.rows._replace(ranks=ranks, change=change)


def one_round(rows: ab.Stream) -> ab.Stream:
    """Return the rows with the ranks after one more click."""
    return rows.map(multiply, name="mul_add").apply(Add, name="add")


def is_settled(rows: list[Rows]) -> bool:
    """Tell whether the ranks hardly change any more."""
    return rows[0].change < ENOUGH * len(rows[0].ranks)


def ranked(rows: Rows) -> Iterator[Rank]:
    """Yield the ranks of the pages of these rows."""
    mine = rows.ranks[rows.first : rows.first + len(rows.pages)]
    for page, rank in zip(rows.pages, mine, strict=True):
        yield Rank(int(page), float(rank))


def program(links: Path | None = None) -> ab.Result:
    """Return the ranks of all pages, in the order of their numbers."""
    path = links or real_file("graphs", "wiki-Vote.txt") or sample_file()
    lines = ab.read_text(str(path), name="lines").flat_map(link, name="links")
    rows = lines.apply(Matrix, name="matrix")
    settled = rows.iterate(one_round, until=is_settled, name="rounds")
    return settled.flat_map(ranked, name="ranked").to_list(name="ranks")


def sample_file(folder: Path = SAMPLES, pages: int = 300, seed: int = 17) -> Path:
    """Write a graph in which some pages are popular and some have no links."""
    chance = random.Random(seed)
    lines = ["# source target"]
    for page in range(0, pages, 2):
        targets = {int(pages * chance.random() ** 3) for _ in range(8)}
        lines += [f"{page}\t{target}" for target in sorted(targets)]
    return text_sample("pagerank.txt", lines, folder)
