# map | global at 6: class attribute
class Seen:
    all = []

    def add(self, item):
        self.all.append(item)


def operator(item):
    Seen().add(item)
    return item
