# map | stateless
from urllib.parse import parse_qs, unquote, urlsplit


def operator(url: str):
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    query.pop("utm_source", None)
    host = (parts.hostname or "").removeprefix("www.")
    return host, unquote(parts.path), sorted(query.items())
