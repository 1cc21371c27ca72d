# map | stateless | forwards a
from anabranch.graph.declarations import declare

calls = []


@declare(state="stateless", forwards=("a",))
def operator(item):
    calls.append(item)
    return item.clone()
