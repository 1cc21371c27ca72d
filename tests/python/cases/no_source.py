# map | global: nothing is known
scope = {}
exec("def operator(item):\n    return item", scope)
operator = scope["operator"]
