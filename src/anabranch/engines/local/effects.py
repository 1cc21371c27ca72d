"""What a change did to the flow, in words."""

from __future__ import annotations

from anabranch.engines.local.flow import Switch


def effect_of(switch: Switch) -> str:
    """Say what a change brought: the pause, and the locks that it turned on or off."""
    text = f"the flow stood still for {switch.pause_s * 1000:.2f} ms"
    before, after = switch.before.threads.locks, switch.after.threads.locks
    for names, turned in ((after - before, "on"), (before - after, "off")):
        if names:
            text += f"; locks turned {turned}: {', '.join(sorted(names))}"
    return text
