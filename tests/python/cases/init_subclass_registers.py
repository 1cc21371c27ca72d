# map | global
REGISTRY = []


class Base:
    def __init_subclass__(cls, **others):
        REGISTRY.append(cls)


def operator(item):
    class Made(Base):
        size = len(REGISTRY)

    return Made.size
