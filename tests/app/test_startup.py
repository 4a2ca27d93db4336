import subprocess
import sys

from PySide6.QtCore import QObject

CODE = """
import sys
from app.application import Program, make_application
app = make_application(["upreel"])
program = Program(app)
program.window.show()
app.processEvents()
print(sorted({name.split(".")[0] for name in sys.modules} & {"torch", "av", "numpy", "rich"}))
print("engine.api" in sys.modules)
import linecache
print([name for name in linecache.cache if "/app/" in name])
"""


def test_the_first_paint_needs_neither_torch_nor_the_engine_nor_any_source():
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split("\n")[:3] == ["[]", "False", "[]"]


def test_calls_that_return_none_do_not_use_none_up():
    """PySide6 6.12.0 on Python 3.11 does: after some minutes the program aborts."""
    before = sys.getrefcount(None)
    thing = QObject()
    for _ in range(1000):
        thing.setObjectName("a")
    assert sys.getrefcount(None) > before - 500
