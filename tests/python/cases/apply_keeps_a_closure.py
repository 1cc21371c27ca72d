# apply | global
from anabranch.operators.custom import Operator


class operator(Operator):
    def setup(self):
        n = 0

        def count():
            nonlocal n
            n += 1
            return n

        self.count = count

    def process(self, item):
        yield self.count()
