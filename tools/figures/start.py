"""Costs of a start: imports of window and engine, the command line's help, the package's size."""

from __future__ import annotations

from pathlib import Path

from tools.figures.calibration import INTERPRETER_S
from tools.figures.child import ROOT, Children

_TURNS = 9
_PACKAGE = ROOT / "dist" / "upreel"
_MB = 1e6
_AFTER = """
import time; cpu = time.process_time()
from tools.figures.calibration import interpreter_seconds
from tools.figures.child import report
report({"cpu": cpu, "calibration": interpreter_seconds()})
"""
_HELP = """
import contextlib, io, sys
from engine.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(["--help"])
"""
_CODE = {
    "start.window_import": "import app.application",
    "start.engine_import": "import engine.api",
    "start.help": _HELP,
}


def measure(children: Children) -> dict[str, float]:
    """CPU seconds from the start of the process, in turns; each calibrates itself at its end."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in _CODE}
    for code in _CODE.values():
        children.figures("-c", code + _AFTER)  # compiles
    for _ in range(_TURNS):
        for name, code in _CODE.items():
            found[name].append(children.figures("-c", code + _AFTER))
    fastest = min(turn["calibration"] for turns in found.values() for turn in turns)
    scale = INTERPRETER_S / fastest
    return {name: scale * min(turn["cpu"] for turn in turns) for name, turns in found.items()}


def measure_package(_: Children) -> dict[str, float]:
    """Size of the packed program; nothing where it was not made."""
    if not _PACKAGE.is_dir():
        return {}
    return {"package.size": _bytes(_PACKAGE) / _MB}


def _bytes(folder: Path) -> int:
    files = (path for path in folder.rglob("*") if not path.is_symlink())
    return sum(path.stat().st_size for path in files if path.is_file())
