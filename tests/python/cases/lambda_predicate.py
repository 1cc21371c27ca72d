# filter | stateless | push 0..1 | forwards all
operator = lambda item: item.volume > 0
