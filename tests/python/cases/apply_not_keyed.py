# apply | global
from anabranch.operators.custom import Operator


class operator(Operator):
    def setup(self):
        self.last = None

    def process(self, item):
        yield self.last
        self.last = item
