import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.models.community.library import spandrel

SPEC = Path(__file__).parents[2] / "installer" / "app.spec"


def value_of(name: str) -> ast.expr:
    """What the spec gives to a name at its top."""
    for node in ast.parse(SPEC.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            return node.value
    raise AssertionError(name)


def test_unused_files_are_dropped_and_needed_ones_stay():
    pattern = ast.literal_eval(value_of("DROPPED_FILES").args[0])
    dropped = re.compile(pattern, re.VERBOSE)
    for path in (
        "torch/test/test_api",
        "torch/include/ATen/ATen.h",
        "torch/bin/protoc",
        "torch/lib/libtorchbind_test.so",
        "torch/lib/torch_cpu.lib",
        "torch/testing/_internal/common_utils.py",  # only the source: the module is in the archive
        "torch/_inductor/codegen/cpp.py",
        "PySide6/Qt/translations/qt_de.qm",
        "PySide6/Qt/lib/libQt6VirtualKeyboard.so.6",
        "PySide6/plugins/platforms/qdirect2d.dll",
        "torch-2.13.0.dist-info/licenses/third_party/cutlass/LICENSE.txt",
        "distributed/http/static/images/python.png",
        "distributed/distributed-schema.yaml",
        "dask/widgets/templates/array.html.j2",
    ):
        assert dropped.search(path), path
    for path in (
        "torch/bin/torch_shm_manager",  # import torch fails without it
        "torch/distributed/config.py",  # the same: its comments are read
        "torch/_inductor/config.py",
        "torch/lib/torch_cpu.dll",
        "PySide6/Qt/plugins/platforms/libqoffscreen.so",
        "PySide6/plugins/platforms/qwindows.dll",
        "PySide6/Qt/plugins/iconengines/libqsvgicon.so",
        "PySide6/Qt6Widgets.dll",
        "resources/samples/upreel_sample.mp4",
        "resources/licences/GPL-3.0.txt",
        "av.libs/libx264-d6533a8d.so.165",
        "engine/ops/kernels/norm.cu",
        "distributed/distributed.yaml",  # read at the start
        "dask/dask.yaml",
    ):
        assert not dropped.search(path), path


def test_modules_that_torch_imports_are_not_excluded():
    excluded = set(ast.literal_eval(value_of("EXCLUDED_MODULES")))
    assert "tools" in excluded, "scripts of developers"
    needed = {"torch.testing", "torch.distributed", "torch._dynamo", "sympy", "jinja2", "unittest"}
    assert not excluded & needed
    text = SPEC.read_text(encoding="utf-8")
    assert 'program("upreel", "cli_entry", console=False)' in text
    assert 'program("upreel-cli", "main", console=True)' in text
    assert (SPEC.parent / "cli_entry.py").is_file()


@pytest.mark.extended
def test_workers_load_no_module_that_is_left_out():
    code = "import sys, engine.workers.pool, engine.farm.lent; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "distributed.nanny" in loaded
    of_dask = {
        name
        for name in ast.literal_eval(value_of("EXCLUDED_MODULES"))
        if name.partition(".")[0] in {"dask", "distributed"}
    }
    assert of_dask
    assert not of_dask & loaded


def test_both_programs_import_from_the_archive_of_the_folder():
    """The hook itself is tried in test_shared_modules.py."""
    text = SPEC.read_text(encoding="utf-8")
    assert 'runtime_hooks=[str(ROOT / "installer" / "shared_modules.py")]' in text
    assert '("modules.pyz", modules.name, "DATA")' in text


def imports_of(folder: Path) -> set[str]:
    """External modules that the modules in a folder import."""
    found: set[str] = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module)
    return found


def test_whatever_spandrel_imports_is_packed_or_comes_with_torch():
    found = imports_of(Path(spandrel().__file__).parent)
    own = {"__future__", "spandrel", "torch", "torchvision"}
    optional = {"fairscale.nn"}
    outside = {name for name in found if name.partition(".")[0] not in own} - optional
    packed = ast.literal_eval(value_of("MODULES_OF_LIBRARY"))
    assert packed == sorted(packed)
    covered = {".".join(name.split(".")[:n]) for name in packed for n in range(1, 5)}
    assert outside <= covered
    assert set(packed) <= outside


def test_packages_without_their_licence_texts_are_left_out():
    assert {"spandrel", "torchvision"} <= set(ast.literal_eval(value_of("EXCLUDED_MODULES")))
