"""Kernels of generated functions against the functions, firing by firing."""

import pytest

from anabranch.compiler.numeric.values import RefusedError
from anabranch.runtime.compiled.build import compile_kernel
from tests import needs
from tests.compiler.numeric.differential import (
    find_difference,
    interpret,
    make_case,
)

SEEDS = range(needs.count_examples(120, 400))


def cases(seeds):
    """Yield the functions that have a kernel."""
    for seed in seeds:
        try:
            yield make_case(seed)
        except RefusedError:
            continue
        except Exception:  # noqa: BLE001 - whoever asks for kernels refuses it
            continue


def test_a_kernel_gives_what_its_function_gives_or_leaves_it_to_python():
    compiled = list(cases(SEEDS))
    found = {c.seed: find_difference(c, interpret(c.kernel)) for c in compiled}

    assert {} == {seed: text for seed, text in found.items() if text}
    assert len(compiled) > len(SEEDS) // 3, "most functions are refused"
    assert sum("j0" in c.kernel.source for c in compiled) > len(SEEDS) // 40, (
        "few have a long loop"
    )


@pytest.mark.parametrize("seed", needs.quick(2, [3, 41, 62, 105, 250]))
def test_compiled_code_gives_what_the_function_gives(seed):
    case = next(cases(range(seed, 10**6)))

    assert find_difference(case, compile_kernel(case.kernel)) is None
