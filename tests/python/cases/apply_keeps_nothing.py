# apply | stateless: changes nothing that it holds
import re

from anabranch.operators.custom import Operator


class operator(Operator):
    def setup(self):
        self.pattern = re.compile("a+")
        self.limits = {"most": 3}

    def process(self, item):
        found = self.pattern.findall(str(item))
        found.append("")
        yield found[: self.limits["most"]]
