# apply by a | keyed | push 0..1 | forwards all
from anabranch.operators.custom import Operator


class operator(Operator):
    def setup(self):
        self.seen = set()
        self.last = None

    def process(self, item):
        if item.n not in self.seen:
            self.seen.add(item.n)
            self.last = item
            yield item
