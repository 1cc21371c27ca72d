# map | stateless
def operator(item):
    return f"{item.name!r}: {item.price:.2f}" + "%s" % item.name + ",".join(item.tags)
