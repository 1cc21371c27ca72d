"""What a worker finds in modules that it imports anew."""

from pathlib import Path

import pytest

from tests import needs
from tests.engines.spark.test_scripts import run_script

MODULES = {
    "settings": """
import threading
RATE = 1
CONFIG = {"rate": 1}
lock = threading.Lock()
class Model:
    rate = 1
class Conf:
    def __init__(self): self.rate = 1
    def doubled(self): return 2 * self.rate
conf = Conf()
LARGE = [0]
""",
    "registry": """
FUNCTIONS = {}
def register(function): FUNCTIONS[len(FUNCTIONS)] = function
def call(n): return FUNCTIONS[n % 2](n)
""",
    "plugins": """
import registry
registry.register(lambda n: n + 10)
registry.register(lambda n: n + 20)
""",
    "work": """
import registry, settings
from settings import CONFIG, conf
def scaled(n, by=[0]): return n * by[0]
def late(n):
    import settings
    return n * settings.RATE
def compute(n: int) -> list[int]:
    return [
        n * settings.RATE, n * CONFIG["rate"], n * settings.Model.rate,
        n * conf.rate + conf.doubled(), late(n), registry.call(n), scaled(n),
        len(settings.LARGE),
    ]
""",
    "things": """
from dataclasses import dataclass
import anabranch as ab
import settings
@dataclass
class Thing:
    n: int
    def rated(self): return self.n * settings.RATE
    @property
    def group(self): return self.n // settings.RATE
    def __lt__(self, other): return self.n * settings.CONFIG["rate"] < other.n
class Rated(ab.Operator):
    def __init__(self, thing): self.thing = thing
    def setup(self): self.rate = settings.RATE
    def process(self, n): yield n * self.rate + self.help() + self.thing.rated()
    def help(self): return settings.conf.rate
    def finish(self): yield settings.Model.rate
class Numbers(ab.Source):
    def read(self, partition, position):
        for n in range(position or 0, 50):
            yield n * settings.RATE, n + 1
""",
    "job": """
import sys
from pathlib import Path
import anabranch as ab
from anabranch.errors import AnabranchError
import plugins, registry, settings, things, work

CHANGES = {
    "RATE": lambda: setattr(settings, "RATE", 5),
    "CONFIG": lambda: settings.CONFIG.update(rate=5),
    "Model": lambda: setattr(settings.Model, "rate", 5),
    "conf": lambda: setattr(settings.conf, "rate", 5),
    "method": lambda: setattr(settings.Conf, "doubled", lambda conf: 3 * conf.rate),
    "FUNCTIONS": lambda: registry.register(abs),
    "LARGE": lambda: settings.LARGE.extend(range(1_000_000)),
}

""",
}
WORKER = """
from pathlib import Path
from anabranch.epochs.transport.ship import unpack
spec, _ = unpack(Path("shipped").read_bytes())
print("differing", *map(".".join, spec.contents.find_differences()))
import things, work
print(*work.compute(6), things.Thing(6).rated())
print(work.conf is things.settings.conf, things.settings.lock.locked())
"""
SHIP = """
from anabranch.epochs.layout import lay_out
from anabranch.epochs.transport.ship import pack
from anabranch.epochs.task import Spec
from anabranch.runtime.ambient import capture_settings
for name in sys.argv[1:]:
    CHANGES[name]()
out = ab.from_iterable(range(3)).map(work.compute).to_list()
made = ab.compile(out)
layout = lay_out(made.graph, made.plan)
shipped, _ = pack(Spec("job", layout, False, "", {}, capture_settings()))
Path("shipped").write_bytes(shipped)
print(*work.compute(6), things.Thing(6).rated())
"""


def write_modules(folder: Path, rest: str) -> None:
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text + (rest if name == "job" else ""))


def run_python(folder, *arguments):
    done = run_script(folder, *arguments, paths=[str(folder)])
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().split("\n")


@pytest.mark.parametrize(
    "changed",
    needs.quick(
        2,
        [
            ["RATE", "CONFIG", "Model", "conf", "method", "FUNCTIONS"],
            [],
            ["RATE"],
            ["CONFIG"],
            ["Model"],
            ["conf"],
            ["method"],
            ["FUNCTIONS"],
        ],
    ),
)
def test_a_worker_has_what_was_changed_after_the_import(tmp_path, changed):
    write_modules(tmp_path, SHIP)

    here = run_python(tmp_path, "job.py", *changed)
    there = run_python(tmp_path, "-c", WORKER)

    assert ["differing", *here, "True False"] == there


def test_a_worker_tells_that_a_large_variable_differs(tmp_path):
    write_modules(tmp_path, SHIP)

    run_python(tmp_path, "job.py", "LARGE")

    assert "differing settings.LARGE" == run_python(tmp_path, "-c", WORKER)[0]


def test_what_cannot_be_read_in_a_worker_does_not_end_it(tmp_path):
    """The class of the new value is in a module that the worker does not have."""
    text = "import driver_only\nsettings.UNUSED = driver_only.Style()\n"
    write_modules(tmp_path, text + SHIP)
    (tmp_path / "driver_only.py").write_text("class Style: pass\n")

    run_python(tmp_path, "job.py", "RATE")
    (tmp_path / "driver_only.py").unlink()
    differing, computed, _ = run_python(tmp_path, "-c", WORKER)

    assert ("differing", "30") == (differing, computed.split()[0].strip())


RUN = """
class Parts(ab.Sink):
    def __init__(self, folder): self.folder = folder
    def write_part(self, part, items):
        name = Path(self.folder) / part.name
        name.write_text(" ".join(str(item * settings.RATE) for item in items))
        return str(name)
    def commit_parts(self, epoch, parts):
        (Path(self.folder) / "all").write_text("+".join(sorted(parts)))

def build(engine):
    numbers = ab.from_iterable(range(9), int)
    some = ab.from_iterable([things.Thing(n) for n in range(30)])
    table = {n: things.Thing(n) for n in range(3)}
    folder = Path(f"parts-{engine}")
    folder.mkdir()
    return [
        numbers.map(work.compute).to_list(),
        numbers.apply(things.Rated, things.Thing(2)).to_list(),
        some.filter(lambda one: one.rated() > 40).map(lambda one: one.n).to_list(),
        some.key_by("group").window(count=5).aggregate(len).to_list(),
        some.window(count=7).aggregate(lambda w: [one.n for one in sorted(w)]).to_list(),
        numbers.map(lambda n: {"k": n % 3, "n": n})
            .lookup(table, on="k", into=lambda d, one: one.rated() + d["n"]).to_list(),
        ab.read(things.Numbers()).to_list(),
        numbers.write(Parts(folder)),
    ]

if __name__ == "__main__":
    for change in CHANGES.values():
        change()
    found, jobs = [], []
    for engine in ("sequential", "spark"):
        sinks = build(engine)
        jobs.append(ab.run(*sinks, on=engine, verify="off"))
        parts = (Path(f"parts-{engine}") / "all").read_text().split("+")
        written = " ".join(Path(part).read_text() for part in parts)
        found.append([*(sink.items for sink in sinks[:-1]), written])
    for one, two in zip(*found, strict=True):
        assert one == two, (one, two)
    assert [0, 0, 0, 15, 0, 10, 0, 1000001] == found[0][0][0], found[0][0]
    assert " ".join(str(5 * n) for n in range(9)) == found[0][-1], found[0][-1]
    (decision,) = jobs[1].history
    print(decision.what)
"""


@pytest.mark.spark
def test_workers_have_modules_as_the_program_has_changed_them(tmp_path):
    write_modules(tmp_path, RUN)

    assert ["send settings.LARGE to the workers"] == run_python(tmp_path, "job.py")


REFUSED = """
class Stubborn:
    def __reduce__(self): raise TypeError("it stays here")

settings.CONFIG["stubborn"] = Stubborn()
work.scaled.__defaults__[0].append(1)
if __name__ == "__main__":
    for function in (work.compute, work.scaled):
        try:
            out = ab.from_iterable(range(9)).map(function).to_list()
            ab.run(out, on="spark", verify="off")
        except AnabranchError as error:
            print(error)
"""


@pytest.mark.long
@pytest.mark.spark
def test_what_cannot_travel_is_refused_by_name(tmp_path):
    write_modules(tmp_path, REFUSED)

    said = " ".join(run_python(tmp_path, "job.py"))

    assert "CONFIG must be able to travel" in said, said
    assert "it stays here" in said, said
    assert "work.scaled was changed after the import" in said, said


RESUMED = """
import os
import anabranch as ab
import cities

FAILS = "FAILS" in os.environ

def step(seen, n):
    if n == 20 and FAILS:
        raise ValueError("on purpose")
    return cities.City(str(n)), (type(seen) is cities.City, n)

numbers = ab.from_iterable(range(30))
program = numbers.scan(step, cities.City("none")).write_csv("out")
if __name__ == "__main__":
    ab.run(program, on="spark", checkpoint="kept", epoch_items=5, verify="off")
"""
CITIES = """
class City:
    def __init__(self, name): self.name = name
"""
AS_SCRIPT = ["job.py"]
BY_COMMAND = ["-m", "anabranch", "run", "job.py", "--checkpoint", "kept"]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize(
    ("first", "then"), [(AS_SCRIPT, BY_COMMAND), (BY_COMMAND, AS_SCRIPT)]
)
def test_a_state_is_of_the_classes_of_a_module_imported_or_sent(
    tmp_path, monkeypatch, first, then
):
    (tmp_path / "job.py").write_text(RESUMED)
    (tmp_path / "cities.py").write_text(CITIES)

    monkeypatch.setenv("FAILS", "1")
    with pytest.raises(AssertionError) as failed:
        run_python(tmp_path, *first)
    monkeypatch.delenv("FAILS")
    run_python(tmp_path, *then)

    assert "on purpose" in str(failed.value)
    rows = [part.read_text().split()[1:] for part in sorted(tmp_path.glob("out/*.csv"))]
    assert [f"true,{n}" for n in range(30)] == [row for part in rows for row in part]
