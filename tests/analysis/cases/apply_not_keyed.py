# apply | global
from anabranch.graph.custom import Operator


class operator(Operator):
    def process(self, item):
        yield item
