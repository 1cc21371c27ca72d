# map | stateless
class Broken(ValueError):
    pass


def operator(item):
    try:
        if not item:
            raise Broken("empty")
        return int(item)
    except (ValueError, KeyError) as error:
        return str(error)
    finally:
        pass
