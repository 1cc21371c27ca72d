"""How long analysis and compilation take, at 100, 1,000 and 10,000 operators.

Every operator has a function of its own, in a module that is written for the purpose,
so nothing is analysed once and counted many times. Run with the numbers of operators as
arguments to try others.
"""

import importlib.util
import json
import sys
import tempfile
import time
from pathlib import Path

import anabranch as ab
from anabranch.compiler.make_plan import make_plan
from anabranch.language.drafts import build_graph
from anabranch.python.analyze import analyze
from bench.harness.timing import Claim, record

HEADER = """
from typing import NamedTuple

class Item(NamedTuple):
    user: int
    page: int
    value: float

seen = []
"""

FUNCTIONS = (
    "def f{i}(item: Item) -> Item:\n    return item._replace(value=item.value + {i})\n",
    "def f{i}(item: Item) -> bool:\n    return item.value > {i}\n",
    "def f{i}(total: float, item: Item):\n    return total + item.value, item\n",
    "def f{i}(item: Item):\n    for n in range({i} % 3):\n        yield item\n",
    "def f{i}(item: Item) -> Item:\n    seen.append(item)\n    return item\n",
)


def program(operators, module):
    """Return a chain with a fan-out and a fan-in every twenty operators."""
    stream = ab.from_iterable([module.Item(1, 2, 3.0)], module.Item)
    branch = stream
    for i in range(operators - 2):
        function = getattr(module, f"f{i}")
        key = ("user", "page")[i // 50 % 2]
        match i % len(FUNCTIONS):
            case 0:
                stream = stream.map(function)
            case 1:
                stream = stream.filter(function)
            case 2:
                stream = stream.key_by(key).scan(function, 0.0, type=module.Item)
            case 3:
                stream = stream.flat_map(function, type=module.Item)
            case _ if i % 20 == 19:
                stream = ab.union(stream, branch)
                branch = stream
            case _ if i % 50 == 4:
                stream = stream.map(function)
            case _:
                stream = stream.map(module.f0)
    return build_graph([stream.to_list()])


def module_of(operators):
    source = HEADER + "\n".join(
        FUNCTIONS[i % len(FUNCTIONS)].format(i=i) for i in range(operators)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"program_{operators}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        yield module


def measure(operators):
    for module in module_of(operators):
        graph = program(operators, module)
        started = time.perf_counter()
        traits = analyze(graph)
        analysed = time.perf_counter()
        plan = make_plan(graph, traits)
        ended = time.perf_counter()
    return {
        "operators": len(graph.ops),
        "analysis_s": round(analysed - started, 3),
        "compilation_s": round(ended - analysed, 3),
        "per_operator_us": round((ended - started) / len(graph.ops) * 1e6, 1),
        "regions": len(plan.regions),
    }


def main():
    sizes = [int(size) for size in sys.argv[1:]] or [100, 1_000, 10_000]
    measure(20)  # what is imported and cached at first use is not counted
    found = {}
    for size in sizes:
        found[size] = measure(size)
        print(json.dumps(found[size]), flush=True)
    claims = [
        Claim(
            f"analysis and compilation of {size:,} operators",
            one["analysis_s"] + one["compilation_s"],
            unit="s",
            at_most=3.0 if size == 1_000 else None,
            remark=f"{one['per_operator_us']} us an operator; one run",
        )
        for size, one in found.items()
    ]
    record("compile_time", claims)


if __name__ == "__main__":
    main()
