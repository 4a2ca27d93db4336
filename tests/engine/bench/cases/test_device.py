import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.bench.cases import device
from engine.bench.cases.device import gpu_test_rows, kernel_error_rows
from engine.bench.run import BenchOptions
from engine.core.errors import FeatureMissing, NoUsableGpu

PRINTED = """
collected 5 items
tests/engine/test_a.py::test_one PASSED                  [ 20%]
tests/engine/test_a.py::test_two[x y] FAILED             [ 40%]
tests/engine/test_a.py::test_three SKIPPED (no memory)   [ 60%]
tests/engine/test_b.py::test_four PASSED                 [ 80%]
tests/engine/test_b.py::test_five ERROR                  [100%]
FAILED tests/engine/test_a.py::test_two[x y] - assert False
"""


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """What pytest prints, on a machine with a GPU."""
    monkeypatch.setattr(device, "require_gpu", lambda options: "cuda")
    (tmp_path / "tests").mkdir()
    monkeypatch.setattr(device, "_ROOT", tmp_path)
    real = subprocess.Popen

    def use(text: str) -> None:
        (tmp_path / "printed").write_text(text, "utf-8")

        def started(command: tuple[str, ...], **options: Any) -> Any:
            assert command[1:3] == ("-m", "pytest")
            code = "print(open('printed').read())"
            return real([command[0], "-I", "-S", "-c", code], **options)

        monkeypatch.setattr(device.subprocess, "Popen", started)

    return use


def test_each_test_has_a_row(printed: Any) -> None:
    printed(PRINTED)
    rows = list(gpu_test_rows(BenchOptions()))
    assert [row["result"] for row in rows] == ["PASSED", "FAILED", "SKIPPED", "PASSED", "ERROR"]
    assert rows[1] == {"file": "engine/test_a.py", "test": "test_two[x y]", "result": "FAILED"}


def test_a_run_without_tests_is_an_error(printed: Any) -> None:
    printed("ImportError: no module named av")
    with pytest.raises(FeatureMissing, match="ImportError"):
        list(gpu_test_rows(BenchOptions()))


def test_without_a_gpu_or_tests_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(NoUsableGpu):
        next(gpu_test_rows(BenchOptions(device="cpu")))
    monkeypatch.setattr(device, "require_gpu", lambda options: "cuda")
    monkeypatch.setattr(device, "_ROOT", tmp_path)
    with pytest.raises(FeatureMissing, match="tests are not installed"):
        next(gpu_test_rows(BenchOptions()))


def test_errors_of_kernels_need_a_gpu() -> None:
    with pytest.raises(NoUsableGpu):
        next(kernel_error_rows(BenchOptions(device="cpu")))
