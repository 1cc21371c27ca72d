# flat_map | stateless | push 1..4
from anabranch.graph.declarations import declare


@declare(push=(1, 4))
def operator(item):
    return [x for x in item]
