# apply | global
import functools

from anabranch.operators.custom import Operator


class operator(Operator):
    @functools.cached_property
    def box(self):
        return [0]

    def process(self, item):
        self.box[0] += 1
        yield self.box[0]
