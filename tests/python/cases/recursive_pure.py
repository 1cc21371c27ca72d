# map | stateless
def depth(tree):
    return 1 + max((depth(branch) for branch in tree), default=0)


def operator(item):
    return depth(item)
