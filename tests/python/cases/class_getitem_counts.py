# map | global: Sizes
class Sizes:
    seen = []

    def __class_getitem__(cls, key):
        cls.seen.append(key)
        return len(cls.seen)


def operator(item):
    return Sizes[item]
