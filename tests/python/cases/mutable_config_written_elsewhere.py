# map | stateless
class Config:
    def __init__(self):
        self.factor = 3

    def adapt(self, n):
        self.factor = n


config = Config()
config.adapt(4)

# the attribute is assigned before the job, and by no operator
def operator(item):
    return item * config.factor
