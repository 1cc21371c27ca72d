"""Figure 9 of safe data parallelism: ordering, epochs, skew and selectivity.

    anabranch bench safe/fig9 [ordering] [epochs] [skew] [selectivity]

A region of one operator, on the local engine with two channels. Ordering is compared by
processor time, since what is compared is work; the others by speedup over one channel.
For skew there is also what 32 channels would get, computed by our hash: as keys come,
and with buckets moved, which the paper names as what its runtime lacks.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import anabranch as ab
from bench.harness.plots import plot
from bench.harness.timing import Claim, Table, claim, report, sized
from bench.local.ordering import overheads
from bench.safe.model import balanced_table, hashed
from bench.safe.programs import (
    KEYS,
    Item,
    count_for,
    multiply,
    some,
    speedups,
    stateful,
)

WORK = 100_000  # multiplications
EPOCHS = sized((1, 2, 4, 8, 16, 32), (1, 32))
SKEWS = sized((78, 50, 20, 10, 5, 1), (78, 1))  # % of keys that are 80% of tuples
WINDOWS = sized((1, 16, 256), (1, 256))  # tuples for each aggregation
Found = tuple[dict[str, Any], list[Claim], Table]


def ordering() -> Found:
    found = {us: overheads(us) for us in sized((0, 1, 10, 100), (10,))}
    names = {"seqno": "12%", "strict": "21%", "relaxed": "21%"}
    claims = [
        claim(
            f"ordering: {name} over round robin, at the worst",
            worst(found, name),
            paper=f"at most {said} more",
            at_most=1 + float(said[:-1]) / 100,
            remark="processor time; the highest of all costs",
        )
        for name, said in names.items()
    ]
    rows = [[us, *(one[name]["ratio"] for name in names)] for us, one in found.items()]
    title = "processor time over round robin, by microseconds of work"
    return (
        {str(us): one for us, one in found.items()},
        claims,
        Table(title, ["us", *names], rows),
    )


def worst(found: dict[int, Any], name: str) -> dict[str, float]:
    return max((one[name] for one in found.values()), key=lambda one: one["ratio"])


def program(items: list[Item], work: int = WORK) -> Callable[[], ab.Result]:
    return lambda: stateful(work, ab.from_iterable(items, Item)).to_list()


def epochs() -> Found:
    items = some(count_for(WORK))
    found = {e: speedups(program(items), (2,), epoch=e)[2] for e in EPOCHS}
    medians = {e: statistics.median(seen) for e, seen in found.items()}
    longer = [median for e, median in medians.items() if e >= 8]
    varies = (max(longer) / min(longer) - 1) * 100
    claims = [
        Claim(
            "epochs: speedup varies between lengths of 8 and 32 by",
            varies,
            unit="%",
            paper="at most 8%",
            at_most=8.0,
        )
    ]
    rows = [[e, median] for e, median in medians.items()]
    title = "speedup of 2 channels by tuples for each pulse"
    return found, claims, Table(title, ["epoch", "speedup"], rows)


def skewed(percent: int) -> dict[int, float]:
    """Return weights of keys: so many percent of them have 80% of the volume."""
    heavy = max(1, KEYS * percent // 100)
    return {
        key: 80 / heavy if key < heavy else 20 / (KEYS - heavy) for key in range(KEYS)
    }


def skew() -> Found:
    found, rows = {}, []
    for percent in SKEWS:
        weights = skewed(percent)
        drawn = random.Random(7).choices(
            [*weights], [*weights.values()], k=count_for(WORK)
        )
        items = [Item(n, key, 0) for n, key in enumerate(drawn)]
        seen = speedups(program(items), (2,))[2]
        bounds = [
            1 / max(hashed(weights, 32, table).values())
            for table in (None, balanced_table(weights, 32))
        ]
        found[percent] = {"measured at 2": seen, "bounds at 32": bounds}
        rows.append([percent, statistics.median(seen), *bounds])
    claims = [
        Claim(
            f"skew: {SKEWS[-1]}% of the keys have 80% of the volume, bound at 32",
            rows[-1][3],
            low=rows[-1][2],
            high=rows[-1][3],
            paper="speedup suffers; no balancing (no figures in the text)",
            remark="computed; lowest: by hash alone, highest: with buckets moved",
        )
    ]
    head = ["% of keys", "2 measured", "32 by hash, bound", "32 balanced, bound"]
    title = "speedup where so many percent of the keys have 80% of the volume"
    return found, claims, Table(title, head, rows)


def aggregate(work: int, items: list[Any]) -> Item:
    multiply(work)
    return items[-1]


def selectivity() -> Found:
    found, rows = {}, []
    works = sized((100, 10_000, 1_000_000), (1_000_000,))
    for work in works:
        for window in WINDOWS:
            items = some(count_for(work // window))
            function = ab.declare(state="stateless")(partial(aggregate, work))

            def sink(items=items, window=window, function=function) -> ab.Result:
                keyed = ab.from_iterable(items, Item).map(_narrow).key_by("key")
                return keyed.window(count=window).aggregate(function).to_list()

            found[f"{work}, 1:{window}"] = speedups(sink, (2,))[2]
        medians = [statistics.median(found[f"{work}, 1:{w}"]) for w in WINDOWS]
        rows.append([work, *medians])
    cheap, costly = rows[0], rows[-1]
    paper = "a slowdown for cheap and selective ones, at 32 channels (no figures)"
    claims = [
        Claim(f"selectivity: 1:{WINDOWS[-1]}, {row[0]:,} multiplications", row[-1])
        for row in (cheap, costly)
    ]
    head = ["multiplications", *(f"1:{window}" for window in WINDOWS)]
    title = f"speedup of 2 channels by selectivity; paper: {paper}"
    return found, claims, Table(title, head, rows)


@ab.declare(state="stateless", push=(1, 1))
def _narrow(item: Item) -> Item:
    return item._replace(key=item.key % 16)  # few keys, so that windows fill


PARTS = {
    "ordering": ordering,
    "epochs": epochs,
    "skew": skew,
    "selectivity": selectivity,
}


def main() -> None:
    names = sys.argv[1:] or [*PARTS]
    for name in set(names) - set(PARTS):
        sys.exit(f"{name!r} is none of {', '.join(PARTS)}")
    for name in names:
        results, claims, table = PARTS[name]()
        lines = {
            label: (
                [row[0] for row in table.rows],
                [row[n] for row in table.rows],
            )
            for n, label in enumerate(table.head)
            if n
        }
        plot(f"safe_fig9_{name}", lines, x=table.head[0], y=table.title)
        kept = {str(key): value for key, value in results.items()}
        report(f"safe_fig9 {name}", kept, claims=claims, tables=[table])


if __name__ == "__main__":
    main()
