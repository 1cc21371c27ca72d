# apply by a | keyed | push 1..1
from anabranch.operators.custom import Operator


class Counting(Operator):
    def setup(self):
        self.n = 0

    def bump(self):
        self.n += 1
        return self.n


class operator(Counting):
    def setup(self):
        super().setup()
        self.words = []

    def process(self, item):
        self.words.append(item)
        return [(self.bump(), item)]
