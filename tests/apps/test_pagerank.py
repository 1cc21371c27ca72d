"""Ranks against networkx's, and against the solution of the equations."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import anabranch as ab
from tests.apps.loading import ENGINES, load_app


@pytest.fixture(scope="module")
def pagerank():
    return load_app("pagerank")


@pytest.fixture(scope="module")
def sample(pagerank, tmp_path_factory):
    return pagerank.sample_file(tmp_path_factory.mktemp("sample"))


def solved(path):
    """
    The ranks as the unknowns of one system of equations, without any rounds.
    """
    links = [
        tuple(map(int, line.split())) for line in path.read_text().split("\n")[1:-1]
    ]
    pages = sorted({page for link in links for page in link})
    n, place = len(pages), {page: i for i, page in enumerate(pages)}
    click = np.zeros((n, n))
    for source, target in links:
        click[place[target], place[source]] = 1
    given = click.sum(axis=0)
    assert (given == 0).any()
    click = np.where(given == 0, 1 / n, click / np.where(given == 0, 1, given))
    ranks = np.linalg.solve(np.eye(n) - 0.85 * click, np.full(n, 0.15 / n))
    return dict(zip(pages, ranks.tolist(), strict=True))


@pytest.mark.parametrize("on", ENGINES)
def test_ranks_of_the_sample_solve_the_equations(pagerank, sample, on):
    sink = pagerank.program(sample)

    ab.run(sink, on=on)

    wanted = solved(sample)
    assert list(wanted) == [one.page for one in sink.items]
    assert list(wanted.values()) == pytest.approx(
        [one.rank for one in sink.items], abs=1e-9
    )


@pytest.mark.parametrize("name", ["email-Eu-core"])
def test_ranks_of_real_graphs_are_those_of_networkx(pagerank, data, name):
    stored = (data / "graphs" / f"pagerank_{name}.csv").read_text().splitlines()
    wanted = {
        int(row["node"]): float(row["pagerank"]) for row in csv.DictReader(stored)
    }
    sink = pagerank.program(data / "graphs" / f"{name}.txt")

    ab.run(sink, on="sequential")

    got = dict(sink.items)
    assert wanted.keys() == got.keys()
    assert wanted == pytest.approx(got, abs=1e-9)
