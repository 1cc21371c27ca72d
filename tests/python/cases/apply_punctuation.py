# apply by a | global: order of the keys
from anabranch.operators.custom import Operator


class operator(Operator):
    def process(self, item):
        return []

    def punctuation(self):
        return [1]
