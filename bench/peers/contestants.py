"""Who takes part: what is installed for each, and how its program is started."""

from __future__ import annotations

from dataclasses import dataclass, field

ALONE = ("{python}", "{program}", "run", "{job}", "{source}", "{target}")
LIVE_ALONE = ("{python}", "{program}", "live", "{port}", "{target}")


@dataclass(frozen=True)
class Peer:
    """A system that runs the jobs.

    A resident one is started once and asked again and again; another one is started
    for each run. One that `begins_anew` starts a query or a cluster for each job even
    so: what 1,000 trades take is taken off its times. `packages` go into an environment of its own, made in the
    order in which they stand; the first of the last group is the one whose version is
    shown. `most_rows` bounds its input where it is slow: rates are compared.
    """

    name: str
    program: str
    packages: tuple[tuple[str, ...], ...] = ()
    command: tuple[str, ...] = ALONE
    live: tuple[str, ...] | None = LIVE_ALONE
    resident: bool = False
    begins_anew: bool = False
    most_rows: int | None = None
    variables: dict[str, str] = field(default_factory=dict)
    remark: str = ""


def _bytewax(name: str, parts: int, remark: str) -> Peer:
    flow = f"bytewax_flow:{{job}}('{{source}}','{{target}}',{parts})"
    started = ("{python}", "-m", "bytewax.testing", "-p", "2")
    return Peer(
        name,
        "bytewax_flow.py",
        (("bytewax",),),
        (*started, flow),
        (*started, "bytewax_flow:live({port},'{target}')") if parts == 1 else None,
        remark=remark,
    )


_SPAWN = ("{bin}/pathway", "spawn", "--processes", "2", "--first-port", "{port}")
OURS = "anabranch, Spark"
PEERS = {
    "loop": Peer("plain loop", "loop.py"),
    "processes": Peer(
        "two plain processes",
        "two_processes.py",
        live=None,
        remark="half of the input each; nothing is carried from one to the other",
    ),
    "anabranch": Peer(
        OURS, "anabranch_job.py", resident=True, variables={"PEER_ENGINE": "spark"}
    ),
    "anabranch-local": Peer(
        "anabranch, local",
        "anabranch_job.py",
        resident=True,
        variables={"PEER_ENGINE": "local"},
    ),
    "bytewax": _bytewax("Bytewax", 1, "two processes, the file read by one"),
    "bytewax-cut": _bytewax(
        "Bytewax, input cut in two", 2, "two processes, each reads half of the file"
    ),
    "pathway": Peer(
        "Pathway",
        "pathway_job.py",
        (("pathway",),),
        (*_SPAWN, *ALONE),
        most_rows=400_000,
        remark="two processes; live: one",
    ),
    "pyflink": Peer(
        "PyFlink",
        "flink_job.py",
        (("setuptools<81", "wheel"), ("apache-flink",)),
        resident=True,
        begins_anew=True,
        most_rows=100_000,
        remark="two tasks; thread mode, process mode for the heavy map",
    ),
    "pyspark": Peer(
        "PySpark by hand",
        "pyspark_job.py",
        (("pyspark>=4.3,<4.4", "pandas<3", "pyarrow"),),
        resident=True,
        begins_anew=True,
        most_rows=200_000,
        remark="four mapInPandas; applyInPandasWithState",
    ),
}
