import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.helpers.clips import make_clip

LIGHT = [
    "engine.api",
    "engine.cli.main",
    "engine.__main__",
    "engine.planner.plan_job",
    "engine.tiling.grid",
    "engine.jobs.engine_thread",
    "engine.models.registry",
    "engine.models.lite.cost",
    "engine.models.identify",
    "engine.models.seedvr2.vae.cost",
    "engine.models.seedvr2.dit.config",
    "engine.models.seedvr2.plan",
    "engine.models.seedvr2.vae.tiling",
    "engine.ops.attention.windows",
    "engine.video.shots",
    "engine.model_files.formats.safetensors_file",
    "app.application",
    "app.main_window",
]


def loaded_by(module: str) -> set[str]:
    code = f"import sys, {module}; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", LIGHT)
def test_loads_without_torch_and_av(module):
    loaded = loaded_by(module)
    assert not {"torch", "av"} & loaded
    if module in ("engine.api", "engine.cli.main", "app.application"):
        late = {"httpx", "httpcore", "anyio", "truststore", "sounddevice", "numpy"}
        assert not late & loaded, "loaded with the first download, sound or frame"
    assert module.startswith("app.") or "PySide6" not in loaded


def test_import_rows_are_kept():
    code = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_no_modules_import_each_other():
    root = Path(__file__).parents[1]
    files = [file for top in ("engine", "app", "tools") for file in (root / top).rglob("*.py")]
    names = {".".join(file.relative_to(root).with_suffix("").parts): file for file in files}
    imported = {
        name: set(imports_of(ast.parse(file.read_text("utf-8")).body, set(names))) - {name}
        for name, file in names.items()
    }
    TopologicalSorter(imported).prepare()  # raises CycleError, which names the modules


def imports_of(body: list[ast.stmt], names: set[str]) -> Iterator[str]:
    """Those among `names` that a module imports when it is loaded."""
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from names & {alias.name for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom):
            wanted = {f"{statement.module}.{alias.name}" for alias in statement.names}
            yield from names & {str(statement.module), *wanted}
        elif isinstance(statement, ast.Try):
            yield from imports_of(statement.body, names)


FILES_OF_A_PLAN = """
import sys
from pathlib import Path
from engine import api
from engine.settings.schema import EngineSettings, JobSettings

files = set()


def trace(frame, event, argument):
    if event == "call":
        file, caller = frame.f_code.co_filename, frame
        while caller and "importlib" not in caller.f_code.co_filename:
            caller = caller.f_back
        if caller is None:  # what importing a module runs does not count
            files.add(file)


source, settings, gpu = Path(sys.argv[1]), JobSettings(model="seedvr2-3b"), "RTX 5070 Ti"
pretend = api.pretended(gpu)
sys.setprofile(trace)
api.plan(source, settings, None, engine_settings=EngineSettings(), pretend=pretend)
sys.setprofile(None)
root = str(Path(api.__file__).parent)
print("\\n".join(sorted(file for file in files if file.startswith(root) and file.endswith(".py"))))
"""


def test_a_plan_goes_through_at_most_65_files(tmp_path):
    source = make_clip(tmp_path / "clip.mp4", frames=12)
    code = [sys.executable, "-c", FILES_OF_A_PLAN, source]
    files = subprocess.run(code, capture_output=True, text=True, check=True).stdout.split()
    assert 30 < len(files) <= 65, "\n".join(files)
