# map | global at 6: push
log = []
push = log.append

def operator(item):
    push(item)
    return item
