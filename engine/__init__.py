"""Upreel's engine: everything but the window; it knows nothing of Qt.

`import engine` loads no other library. docs/python.md shows how to use it in a Python program.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from engine.core.errors import EngineError
from engine.runtimes import environment

if TYPE_CHECKING:
    from engine.scripting import load_vae, plan, probe, upscale, upscale_frames, verify

__all__ = ["EngineError", "load_vae", "plan", "probe", "upscale", "upscale_frames", "verify"]
__version__ = "0.1.0"  # as in pyproject.toml; what an update is compared with

environment.prepare()  # here, since whatever loads torch has imported this package first


def __getattr__(name: str) -> object:
    """A name of the interface, which is loaded when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("engine.scripting"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
