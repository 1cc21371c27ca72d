# map | global at 9: made
import dataclasses

made = []


def number():
    # runs each time a Ticket is made
    made.append(1)
    return len(made)


@dataclasses.dataclass(frozen=True)
class Ticket:
    number: int = dataclasses.field(default_factory=number)


def operator(item):
    return Ticket(), item
