import subprocess
import sys

from PySide6.QtCore import QObject

from app import application
from app.start_options import parse
from engine.protocol import commands

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


def test_the_window_starts_with_files_and_the_sample_clip(bench, tmp_path):
    options = parse(["upreel", str(tmp_path / "film.mp4"), "--demo"])
    given: dict[str, object] = {}
    bench.patch.setattr("engine.api.Engine", lambda *_, **how: given.update(how) or bench.engine)
    bench.patch.setattr("engine.api.unfinished", tuple)
    bench.patch.setattr(bench.program, "attach", lambda _engine: None)  # it has its engine
    application._attach_engine(bench.program, options)
    added = [(one.source.name, one.settings.model) for one in bench.asked(commands.AddJob)]
    assert added == [("film.mp4", "auto"), ("upreel_sample.mp4", "lite")]
    assert given["window_bytes"]  # its plans count the window
