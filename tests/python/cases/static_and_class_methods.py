# map | stateless
class Codes:
    BASE = 7

    @staticmethod
    def double(item):
        return item * 2

    @classmethod
    def code(cls, item):
        return cls.double(item) + cls.BASE


operator = Codes.code
