# apply by a | global at 9: class attribute
from anabranch.operators.custom import Operator


class operator(Operator):
    shared = []

    def process(self, item):
        self.shared.append(item)
        return [len(self.shared)]
