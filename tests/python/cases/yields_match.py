# flat_map | stateless | push 0..1
def operator(item):
    match item:
        case 1:
            yield item
        case 2:
            pass
