# map | global at 6: Config.n
class Config:
    n = 0

def operator(item):
    Config.n += 1
    return item
