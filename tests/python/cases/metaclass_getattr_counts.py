# map | global
class Meta(type):
    seen = []

    def __getattr__(cls, name):
        Meta.seen.append(name)
        return len(Meta.seen)


class Sizes(metaclass=Meta):
    pass


def operator(item):
    return Sizes.anything
