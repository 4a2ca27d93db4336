import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.helpers.clips import make_clip

HEAVY = {"torch", "av", "distributed"}
LATE = {"httpx", "httpcore", "anyio", "truststore", "sounddevice", "numpy"}  # first needed by work
LATE |= {"cryptography", "zeroconf", "engine.farm"}
NOT_FIRST = HEAVY | LATE | {"PySide6"}
LIGHT = [
    "engine.__main__",
    "engine.planner.plan_job",
    "engine.tiling.grid",
    "engine.jobs.engine_thread",
    "engine.models.registry",
    "engine.models.lite.cost",
    "engine.models.identify",
    "engine.models.video_vae.measured_memory",
    "engine.models.seedvr2.dit.config",
    "engine.models.seedvr2.plan",
    "engine.models.seedvr2.vae.tiling",
    "engine.models.seedvr2.dit.config",
    "engine.video.shots",
    "engine.files.formats.safetensors_file",
    "engine.farm.lending",  # waits for work; its processes choose a runtime before torch is loaded
]
IMPORTS = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    print(name, *sys.modules)
"""


@pytest.mark.parametrize(
    "not_loaded",
    [
        {
            "engine": NOT_FIRST | {"engine.api", "engine.scripting"},
            **dict.fromkeys(
                ("engine.scripting", "engine.api", "engine.cli.main", "engine.bench.command"),
                NOT_FIRST,
            ),
            **dict.fromkeys(LIGHT, HEAVY | {"PySide6"}),
        },
        {"app.application": HEAVY | LATE},
    ],
    ids=["engine", "app"],
)
def test_what_is_shown_and_planned_loads_without_torch_and_av(not_loaded):
    modules = [*not_loaded]
    code = [sys.executable, "-c", IMPORTS, *modules]
    done = subprocess.run(code, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [name for name, *_ in lines] == modules
    for name, *loaded in lines:  # one after the other: the first one that is named is at fault
        assert not not_loaded[name] & set(loaded), name


def test_import_rows_are_kept():
    code = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@cache
def imports() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Modules that each module imports anywhere, and those that it imports outside of functions."""
    root = Path(__file__).parents[1]
    files = [file for top in ("engine", "app", "tools") for file in (root / top).rglob("*.py")]
    names = {".".join(file.relative_to(root).with_suffix("").parts): file for file in files}
    everywhere, outside = {}, {}
    for name, file in names.items():
        found = list(imports_of(ast.parse(file.read_text("utf-8")), set(names)))
        everywhere[name] = {one for one, _ in found} - {name}
        outside[name] = {one for one, is_inside in found if not is_inside}
    return everywhere, outside


def imports_of(
    node: ast.AST, names: set[str], *, is_inside: bool = False
) -> Iterator[tuple[str, bool]]:
    """Imported modules among `names` below a node, and whether a function imports them."""
    is_inside = is_inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for child in ast.iter_child_nodes(node):
        found = set[str]()
        if isinstance(child, ast.Import):
            found = {alias.name for alias in child.names}
        elif isinstance(child, ast.ImportFrom):
            found = {f"{child.module}.{alias.name}" for alias in child.names} | {str(child.module)}
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from imports_of(child, names, is_inside=is_inside)
        yield from ((name, is_inside) for name in names & found)


def test_no_modules_import_each_other():
    """Not even inside functions, or for types alone."""
    everywhere, _ = imports()
    TopologicalSorter(everywhere).prepare()  # raises CycleError, which names the modules


def test_the_fast_transformer_loads_nothing_of_the_compiler():
    """Its switch does: see test_compiled.py."""
    _, outside = imports()
    loaded = {"engine.models.seedvr2.dit.fast"}
    rest = [*loaded]
    while rest:
        found = outside[rest.pop()] - loaded
        loaded |= found
        rest += found
    assert {"engine.models.seedvr2.dit.fast_blocks", "engine.ops.kernels.build"} <= loaded
    assert not {"engine.models.seedvr2.dit.compiled", "engine.ops.compiler"} & loaded


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


def test_a_plan_goes_through_at_most_62_files_in_17_packages(tmp_path):
    source = make_clip(tmp_path / "clip.mp4", frames=12)
    code = [sys.executable, "-c", FILES_OF_A_PLAN, source]
    files = subprocess.run(code, capture_output=True, text=True, check=True).stdout.split()
    assert 30 < len(files) <= 62, "\n".join(files)
    assert len({Path(file).parent for file in files}) <= 17
