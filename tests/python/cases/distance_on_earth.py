# map | stateless | forwards car
import math
from typing import NamedTuple

RADIUS_KM = 6_371.0
HOME = (52.52, 13.405)


class Item(NamedTuple):
    car: str
    lat: float
    lon: float


class Away(NamedTuple):
    car: str
    km: float


def haversine(one, two):
    (lat1, lon1), (lat2, lon2) = one, two
    dlat, dlon = math.radians(lat2 - lat1), math.radians(lon2 - lon1)
    a = (
        math.sin(dlat / 2) ** 2
        + math.cos(math.radians(lat1)) * math.cos(math.radians(lat2)) * math.sin(dlon / 2) ** 2
    )
    return 2 * RADIUS_KM * math.asin(math.sqrt(a))


def operator(item):
    return Away(item.car, round(haversine(HOME, (item.lat, item.lon)), 2))
