# filter | stateless | forwards all
from typing import NamedTuple


class Item(NamedTuple):
    name: str
    age: int
    mail: str | None


RULES = (
    lambda item: 0 <= item.age < 130,
    lambda item: item.mail is None or "@" in item.mail,
    lambda item: item.name.strip() != "",
)


def operator(item: Item) -> bool:
    return all(rule(item) for rule in RULES)
