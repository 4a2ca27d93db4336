"""Contents of the packed folder."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SPEC = Path(__file__).parents[2] / "installer" / "app.spec"


@pytest.fixture(scope="module")
def assigned() -> dict[str, ast.expr]:
    """Values given to names at the top of the spec."""
    tree = ast.parse(SPEC.read_text(encoding="utf-8"))
    return {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


@pytest.fixture(scope="module")
def dropped(assigned: dict[str, ast.expr]) -> re.Pattern[str]:
    call = assigned["DROPPED_FILES"]
    assert isinstance(call, ast.Call)
    return re.compile(ast.literal_eval(call.args[0]), re.VERBOSE)


@pytest.mark.parametrize(
    "path",
    [
        "torch/test/test_api",
        "torch/include/ATen/ATen.h",
        "torch/bin/protoc",
        "torch/lib/libtorchbind_test.so",
        "torch/lib/torch_cpu.lib",
        "torch/testing/_internal/common_utils.py",  # only the source: the module is in the archive
        "torch/_inductor/codegen/cpp.py",
        "PySide6/Qt/translations/qt_de.qm",
        "PySide6/translations/qt_de.qm",
        "PySide6/Qt/lib/libQt6VirtualKeyboard.so.6",
        "PySide6/Qt6Pdf.dll",
        "PySide6/plugins/platforms/qdirect2d.dll",
        "torch-2.13.0.dist-info/licenses/third_party/cutlass/LICENSE.txt",
    ],
)
def test_unused_files_are_dropped(dropped: re.Pattern[str], path: str) -> None:
    assert dropped.search(path)


@pytest.mark.parametrize(
    "path",
    [
        "torch/bin/torch_shm_manager",  # import torch fails without it
        "torch/distributed/config.py",  # the same: its comments are read
        "torch/_inductor/config.py",
        "torch/nn/functional.py",
        "torch/lib/libtorch_cpu.so",
        "torch/lib/torch_cpu.dll",
        "PySide6/Qt/plugins/platforms/libqoffscreen.so",
        "PySide6/plugins/platforms/qwindows.dll",
        "PySide6/plugins/imageformats/qsvg.dll",
        "PySide6/Qt/plugins/iconengines/libqsvgicon.so",
        "PySide6/Qt/lib/libQt6Svg.so.6",
        "PySide6/Qt6Widgets.dll",
        "resources/samples/upreel_sample.mp4",
        "resources/licences/GPL-3.0.txt",
        "av.libs/libx264-d6533a8d.so.165",
        "engine/ops/kernels/norm.cu",
    ],
)
def test_needed_files_stay(dropped: re.Pattern[str], path: str) -> None:
    assert not dropped.search(path)


def test_modules_that_torch_imports_are_not_excluded(assigned: dict[str, ast.expr]) -> None:
    excluded = set(ast.literal_eval(assigned["EXCLUDED_MODULES"]))
    assert "tools" in excluded, "scripts of developers"
    needed = {"torch.testing", "torch.distributed", "torch._dynamo", "sympy", "jinja2", "unittest"}
    assert not excluded & needed


def test_window_and_command_line_are_both_packed() -> None:
    text = SPEC.read_text(encoding="utf-8")
    assert 'program("upreel", "cli_entry", console=False)' in text
    assert 'program("upreel-cli", "main", console=True)' in text
    assert (SPEC.parent / "cli_entry.py").is_file()
