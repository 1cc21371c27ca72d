# map | global: changes
class Basket:
    things = []

    def put(self, thing):
        self.things.append(thing)
        return len(self.things)


def operator(item):
    return Basket().put(item)
