# map | global at 3: imports
def operator(item):
    import wsgiref.simple_server as server

    return server
