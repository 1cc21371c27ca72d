# map | global at 3: seen
seen = []
first, operator, third = lambda i: i + 1, lambda i: seen.append(i), lambda i: i + 2
