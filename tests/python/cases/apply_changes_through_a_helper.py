# apply | global
from anabranch.operators.custom import Operator


class operator(Operator):
    def setup(self):
        self.reset()

    def reset(self):
        self.seen = []

    def process(self, item):
        yield len(self.seen)
        self.reset()
