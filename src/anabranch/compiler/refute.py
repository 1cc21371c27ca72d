"""What a run has found out against the analysis becomes part of what is known.

An operator whose verdict was refuted has effects that only one process can keep. Where
several reach what has changed, each of them may see what another one does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from anabranch.plan.plan import Reason
from anabranch.python.analyze import Analysis
from anabranch.python.sharing import Sharing
from anabranch.python.traits import Evidence


def refute(analysis: Analysis, refuted: Mapping[str, Reason]) -> Analysis:
    """Return the analysis with some operators made sequential, for these reasons.

    >>> from anabranch.python.traits import Traits
    >>> known = Analysis({"count": Traits("stateless")})
    >>> refute(known, {"count": Reason("state", "n has changed", "f.py", 3)}).traits
    ... # doctest: +ELLIPSIS
    {'count': Traits(state='global', ...effects=True...)}
    """
    traits = dict(analysis.traits)
    for name, reason in refuted.items():
        others = tuple(one for one in traits[name].evidence if one.trait != "state")
        found = Evidence("state", reason.text, reason.file, reason.line, "writes")
        traits[name] = replace(
            traits[name],
            state="global",
            key=(),
            effects=True,
            in_parallel=False,
            lifted=(),
            evidence=(found, *others),
        )
    by_text: dict[str, list[str]] = {}
    for name, reason in refuted.items():
        by_text.setdefault(reason.text, []).append(name)
    sharing = tuple(
        Sharing(reader, names[0], text, refuted[reader].file, refuted[reader].line)
        for text, names in by_text.items()
        for reader in names[1:]
    )
    return Analysis(traits, (*analysis.sharing, *sharing))
