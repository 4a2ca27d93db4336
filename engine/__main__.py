"""The command line: `python -m engine`."""

from __future__ import annotations

import signal
import sys

_raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if _raises:  # Ctrl-C ends the process without a traceback of imports, which take half a second
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from engine.hardware.process import load_for_good  # noqa: E402 - the signal is set before it loads

load_for_good("engine.cli.main")  # an eighth of a short command's time were collections

from engine.cli.main import main  # noqa: E402 - it is loaded already

if _raises:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if __name__ == "__main__":
    sys.exit(main())
