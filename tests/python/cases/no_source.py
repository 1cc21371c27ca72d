# map | global: the source of operator is not available
scope = {}
exec("def operator(item):\n    return item", scope)
operator = scope["operator"]
