# map | stateless
import dataclasses


@dataclasses.dataclass(frozen=True)
class Config:
    factor: int = 3


config = Config()


def operator(item):
    return item * config.factor
