"""Costs of a start: imports of window and engine, the command line's help, the package's size."""

from __future__ import annotations

from pathlib import Path

from tools.figures.child import Children

_PACKAGE = Path("dist", "upreel")
_MB = 1e6
_AFTER = """
import time; cpu = time.process_time()
from tools.figures.child import report
report({"cpu": cpu})
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
    """CPU seconds from the start of a process."""
    return {name: children.figures("-c", code + _AFTER)["cpu"] for name, code in _CODE.items()}


def measure_package(children: Children) -> dict[str, float]:
    """Size of the packed program; nothing where it was not made."""
    folder = children.root / _PACKAGE
    if not folder.is_dir():
        return {}
    files = (path for path in folder.rglob("*") if not path.is_symlink())
    return {"package.size": sum(path.stat().st_size for path in files if path.is_file()) / _MB}
