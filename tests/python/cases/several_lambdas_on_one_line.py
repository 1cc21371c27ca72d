# map | stateless
seen = []
first, operator, third = lambda i: seen.append(i), lambda i: i + 1, lambda i: seen.pop()
