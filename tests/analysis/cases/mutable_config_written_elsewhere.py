# map | global at 14: factor
class Config:
    def __init__(self):
        self.factor = 3

    def adapt(self, n):
        self.factor = n


config = Config()

# nobody promises that adapt is not called meanwhile
def operator(item):
    return item * config.factor
