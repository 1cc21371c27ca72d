# map | global at 15: factor
class Config:
    def __init__(self):
        self.factor = 3

    def adapt(self, n):
        self.factor = n


config = Config()
hooks = [config.adapt]

# whoever has the hooks may call them meanwhile
def operator(item):
    return item * config.factor
