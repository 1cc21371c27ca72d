# map | global: changes
import enum


class Side(enum.Enum):
    BUY = "B"
    SELL = "S"

    def note(self):
        self.seen = getattr(self, "seen", 0) + 1
        return self.seen


def operator(code: str):
    return Side(code).note()
