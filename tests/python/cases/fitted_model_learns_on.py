# map | global at 8: changes
class Model:
    def __init__(self):
        self.seen = []

    def predict(self, item):
        # it fits while it predicts
        self.seen.append(item)
        return len(self.seen)


model = Model()


def operator(item):
    return model.predict(item)
