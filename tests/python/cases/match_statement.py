# map | stateless | forwards
def operator(item):
    match item:
        case {"kind": "a", **rest}:
            return len(rest)
        case [first, *others] if others:
            return first
        case _:
            return item
