# map | global
class Meta(type):
    seen = []

    def __instancecheck__(cls, other):
        Meta.seen.append(other)
        return len(Meta.seen) % 2 == 0


class Sizes(metaclass=Meta):
    pass


def operator(item):
    return isinstance(item, Sizes)
