# apply by a | global at 11: changes the global log
from anabranch.operators.custom import Operator

log = []

class operator(Operator):
    def process(self, item):
        return [item]

    def finish(self):
        log.append(1)
        return []
