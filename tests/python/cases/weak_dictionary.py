# map | global
import weakref


class Key:
    pass


KEY = Key()
TABLE = weakref.WeakKeyDictionary()


def operator(item):
    TABLE[KEY] = TABLE.get(KEY, 0) + 1
    return TABLE[KEY]
