"""What may be loaded before the first paint."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from app.application import Program, make_application
app = make_application(["upreel"])
program = Program(app)
program.window.show()
app.processEvents()
print(sorted({name.split(".")[0] for name in sys.modules} & {"torch", "av", "numpy", "rich"}))
print("engine.api" in sys.modules)
"""


def test_the_first_paint_needs_neither_torch_nor_the_engine() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split("\n")[:2] == ["[]", "False"]
