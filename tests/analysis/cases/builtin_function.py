# map | stateless
operator = abs
