# map | stateless
import datetime as dt
from datetime import datetime, timedelta, timezone

EPOCH = datetime(2020, 1, 1, tzinfo=timezone.utc)
FORMATS = ("%Y-%m-%d %H:%M:%S", "%d/%b/%Y:%H:%M:%S %z")


def operator(text: str):
    for form in FORMATS:
        try:
            parsed = datetime.strptime(text, form)
            break
        except ValueError:
            continue
    else:
        parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=timezone.utc)
    hour = parsed.replace(minute=0, second=0, microsecond=0)
    late = (parsed - EPOCH) > timedelta(days=365)
    return hour.isoformat(), int(parsed.timestamp()), dt.date(2020, 1, 1) < parsed.date(), late
