# map | global
class Meta(type):
    seen = []

    @property
    def next(cls):
        Meta.seen.append(1)
        return len(Meta.seen)


class Sizes(metaclass=Meta):
    pass


def operator(item):
    return Sizes.next
