# map | stateless
operator = float
