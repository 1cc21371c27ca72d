# flat_map | stateless | push 0..
operator = str.split
