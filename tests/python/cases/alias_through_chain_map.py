# map | global
from collections import ChainMap

DEFAULTS = {"n": 0}


def operator(item: str):
    both = ChainMap(DEFAULTS)
    both["n"] = both["n"] + 1
    return DEFAULTS["n"]
