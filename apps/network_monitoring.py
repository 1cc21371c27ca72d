"""Break-in attempts on servers: who fails to log in, and who does it again and again.

The servers' SSH daemons log what they do. The program finds the failures. One of them,
too many attempts in a session, is logged without the address, which the session knows
from before. It reports the addresses with five or more failures within ten minutes. As in the network monitoring kernel of the paper on
safe data parallelism, one region is kept apart by server and the next one by who did
it, with filters in both; reports need no order among themselves.

It reads a log of OpenSSH (loghub, 2,000 lines) from the folder `logs` of the real data,
and a generated sample where there is none.
"""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import anabranch as ab
from samples import SAMPLES, real_file, text_sample

OUT = Path("out") / "network_monitoring"
TEN_MINUTES = 600
MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
LINE = re.compile(r"(\w{3}) +(\d+) (\d\d):(\d\d):(\d\d) (\S+) sshd\[(\d+)\]: (.*)")
FAILURE = re.compile(
    r"Failed \S+ for .* from (?P<failed>\S+) port"
    r"|Invalid user .* from (?P<unknown>\S+)"
    r"|error: Received disconnect from (?P<refused>\S+): 3: .*: Auth fail"
    r"|Disconnecting: Too many authentication failures"
)


class Line(NamedTuple):
    """One line of a log, taken apart."""

    ts: int
    server: str
    session: int
    message: str


class Failure(NamedTuple):
    """One failure to log in."""

    ts: int
    server: str
    address: str
    number: int = 0


class Burst(NamedTuple):
    """The failures of an address within ten minutes, and in all until then."""

    address: str
    first: int
    last: int
    failures: int
    in_all: int


class Session(ab.Operator):
    """One session on a server: its failures, with the address of those without."""

    def setup(self) -> None:
        """Start without an address."""
        self.address = ""

    def process(self, line: Line) -> Iterator[Failure]:
        """Yield the failure that a line tells of, if it does."""
        found = FAILURE.match(line.message)
        if found:
            named = found["failed"] or found["unknown"] or found["refused"]
            self.address = named or self.address
            yield Failure(line.ts, line.server, self.address)


def parse(text: str) -> Iterator[Line]:
    """Yield the parts of a line, unless it is of another daemon."""
    found = LINE.match(text)
    if found:
        month, day, hour, minute, second, server, session, message = found.groups()
        days = MONTHS.index(month) // 3 * 31 + int(day)
        ts = ((days * 24 + int(hour)) * 60 + int(minute)) * 60 + int(second)
        yield Line(ts, server, int(session), message)


def program(log: Path | None = None, out: Path = OUT, least: int = 5) -> ab.Result:
    """Return the bursts of at least so many failures."""
    path = log or real_file("logs", "OpenSSH_2k.log") or sample_file()
    lines = ab.read_text(str(path), name="log").flat_map(parse, name="parse")
    failures = lines.key_by("server", "session").apply(Session, name="sessions")
    counted = failures.key_by("address").scan(count, 0, name="count")
    bursts = counted.window(time=TEN_MINUTES, on="ts", late="current").aggregate(
        address=ab.any("address"),
        first=ab.first("ts"),
        last=ab.last("ts"),
        failures=ab.count(),
        in_all=ab.last("number"),
        into=Burst,
        name="ten_minutes",
    )
    many = bursts.filter(lambda burst: burst.failures >= least, name="suspicious")
    return many.write_csv(str(out), name="bursts")


def count(so_far: int, failure: Failure) -> tuple[int, Failure]:
    """Return a failure with its number among those of the address."""
    return so_far + 1, failure._replace(number=so_far + 1)


def sample_file(folder: Path = SAMPLES, lines: int = 1500, seed: int = 13) -> Path:
    """Write the log of three servers, two clumsy users and two attackers."""
    chance = random.Random(seed)
    addresses = ["10.0.0.7", "10.0.0.8", *["203.0.113.5"] * 2, *["198.51.100.9"] * 4]
    written, second = [], 0
    for session in range(lines // 3):
        second += chance.randrange(1, 90)
        hour, rest = divmod(second, 3600)
        at = f"Mar {1 + hour // 24:2} {hour % 24:02}:{rest // 60:02}:{rest % 60:02}"
        address, server = chance.choice(addresses), chance.choice(["a", "b", "c"])
        start = f"{at} {server} sshd[{1000 + session % 200}]:"
        user = chance.choice(["root", "invalid user pi"])
        password = f"password for {user} from {address} port 22 ssh2"
        if address.startswith("10.") and chance.random() < 0.7:
            written.append(f"{start} Accepted password for eve from {address} port 22")
            continue
        if user != "root":
            written.append(f"{start} Invalid user pi from {address}")
        written.append(f"{start} Failed {password}")
        written.append(f"{start} Connection closed by {address} [preauth]")
        if chance.random() < 0.2:
            written.append(f"{start} message repeated 5 times: [ Failed {password}]")
            reason = "Too many authentication failures for root [preauth]"
            written.append(f"{start} Disconnecting: {reason}")
        written.append(f"{at} {server} cron[7]: Failed job for x from y port")
    return text_sample("network_monitoring.log", written, folder)
