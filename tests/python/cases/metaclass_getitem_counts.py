# map | global
class Meta(type):
    seen = []

    def __getitem__(cls, key):
        Meta.seen.append(key)
        return len(Meta.seen)


class Sizes(metaclass=Meta):
    pass


def operator(item):
    return Sizes[item]
