# apply by a | global at 13: shared
from anabranch.operators.custom import Operator

shared = []


class operator(Operator):
    def setup(self):
        self.mine = shared

    def process(self, item):
        # one list for all keys
        self.mine.append(item)
        yield item
