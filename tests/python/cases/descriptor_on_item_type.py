# map | global at 6: changes the global Counted
class Counted:
    n = 0

    def __get__(self, owner, cls):
        Counted.n += 1
        return Counted.n


class Item:
    number = Counted()


def operator(item: Item):
    return item.number
