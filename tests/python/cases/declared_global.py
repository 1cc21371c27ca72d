# map | global
from anabranch.graph.declarations import declare


@declare(state="global")
def operator(item):
    return item
