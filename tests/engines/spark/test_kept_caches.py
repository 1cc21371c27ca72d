"""A state that keeps a cache of `functools` goes on as in one thread."""

import functools

import anabranch as ab
from tests.engines.spark.imitation import undisturbed

NAMES = ["ada", "bob", "cyd"] * 4


class Numbered(ab.Operator):
    def setup(self):
        self.given = 0
        self.number_of = functools.lru_cache(maxsize=2)(self._number)

    def _number(self, _name):
        self.given += 1
        return self.given

    def process(self, name):
        yield self.number_of(name), self.number_of("ada"), self.number_of.cache_info()


def test_a_cache_in_a_state_keeps_its_entries(cluster_of):
    op = Numbered()
    op.setup()
    by_hand = [out for name in NAMES for out in op.process(name)]
    out = ab.from_iterable(NAMES, str).apply(Numbered).to_list()
    cluster_of(undisturbed)

    ab.run(out, on="spark", degree=2, epoch_items=3)

    assert by_hand == out.items
