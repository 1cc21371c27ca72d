# apply | global
from anabranch.operators.custom import Operator


class operator(Operator):
    def setup(self):
        self.numbers = {"all": iter(range(100))}

    def process(self, item):
        yield list(zip([item], self.numbers["all"]))
