# map | global at 7: changes
ASKED = []


class Last:
    def __eq__(self, other):
        ASKED.append(other)
        return True

    __hash__ = None


def operator(item: int):
    return [*iter(int, Last())], len(ASKED)
