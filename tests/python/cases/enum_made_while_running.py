# map | global: makes a class
import enum
import itertools

NUMBERS = itertools.count()


class Numbered(enum.Enum):
    @staticmethod
    def _generate_next_value_(name, start, count, last_values):
        return next(NUMBERS)


def operator(item: str):
    return Numbered("Level", [item]).__members__[item].value
