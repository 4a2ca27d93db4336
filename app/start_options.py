"""Start options of the window: files, and options for trials."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from engine.core import paths
from engine.core.errors import EngineError

RESUME = "--resume"


def no_options() -> argparse.Namespace:
    """Options of a start without arguments."""
    return parse(["upreel"])


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options; ends the program with a sentence where they cannot be."""
    parser = argparse.ArgumentParser(prog="upreel", description="Upscales and restores video.")
    parser.add_argument("files", nargs="*", help="videos, images or folders to queue")
    parser.add_argument(
        RESUME,
        action="store_true",
        help="continue the queue; Windows starts Upreel with it after an update",
    )
    parser.add_argument("--demo", action="store_true", help="upscale the sample clip")
    parser.add_argument(
        "--pretend-gpu",
        action="append",
        default=[],
        metavar="NAME",
        help="plan only, as if this GPU were installed; twice for two of them",
    )
    memory = os.environ.get("UPREEL_PRETEND_VRAM", "")
    parser.add_argument(
        "--pretend-vram", default=memory, help="plan only, with this much GPU memory"
    )
    options = parser.parse_args(list(argv[1:]))
    requested = os.environ.get("UPREEL_PRETEND_GPU", "").split(",")
    options.pretend_gpu = options.pretend_gpu or [name for name in requested if name.strip()]
    options.files = [paths.openable(Path(name)).absolute() for name in options.files]
    if options.pretend_gpu or options.pretend_vram:
        from engine.api import pretended

        try:
            pretended(*options.pretend_gpu, memory=options.pretend_vram)
        except EngineError as err:
            parser.error(f"{err.message} {err.hint}")
    return options
