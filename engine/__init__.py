"""Upreel's engine: everything but the window; it knows nothing of Qt.

`import engine` loads no other library. docs/python.md shows how to use it in a Python program.
"""

import signal
import sys

_interrupt = signal.getsignal(signal.SIGINT)
# of `python -m`, while it looks for the module: Ctrl-C prints no traceback, as in __main__.py
_is_command = sys.argv[:1] == ["-m"] and _interrupt is signal.default_int_handler
if _is_command:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from importlib import import_module  # noqa: E402 - the signal is set before all else loads
from typing import TYPE_CHECKING  # noqa: E402

from engine.core.errors import EngineError  # noqa: E402
from engine.runtimes import environment  # noqa: E402

if TYPE_CHECKING:
    from engine.scripting import load_vae, plan, probe, upscale, upscale_frames, verify

__all__ = ["EngineError", "load_vae", "plan", "probe", "upscale", "upscale_frames", "verify"]
__version__ = "0.1.0"  # as in pyproject.toml; what an update is compared with

environment.prepare()  # here, since whatever loads torch has imported this package first
if _is_command:
    signal.signal(signal.SIGINT, _interrupt)


def __getattr__(name: str) -> object:
    """A name of the interface, which is loaded when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("engine.scripting"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
