# apply by a | global at 9: operator.n
from anabranch.operators.custom import Operator


class operator(Operator):
    n = 0

    def process(self, item):
        operator.n += 1
        yield operator.n
