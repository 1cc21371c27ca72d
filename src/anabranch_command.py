"""The command `anabranch`: Ctrl-C while it is being loaded ends it without a traceback.

Only a module outside of the package can say so before the package is imported.
"""

import signal

_before = signal.getsignal(signal.SIGINT)
if _before is signal.default_int_handler:  # somebody may ignore it, as nohup does
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from anabranch.cli import main  # noqa: E402 - that is the point

signal.signal(signal.SIGINT, _before)

__all__ = ["main"]
