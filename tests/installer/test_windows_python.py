"""The parts of the Windows build that need neither Wine nor a compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from installer import build_windows, vc_runtime, windows_python
from tests.packaging import windows_tests

LISTING = """
The Export Tables (interpreted .rdata section contents)

Export Address Table -- Ordinal Base 1
\t[   0] +base[   1] 1234 Export RVA

[Ordinal/Name Pointer] Table
\t[   0] PyAIter_Check
\t[   1] _Py_NoneStruct

The Function Table (interpreted .pdata section contents)
"""


def test_every_export_is_handed_on() -> None:
    names = windows_python.exported_names(LISTING)
    assert names == ["PyAIter_Check", "_Py_NoneStruct"]
    made = windows_python.forwarding(names, "python312")
    assert made.splitlines() == [
        "EXPORTS",
        "  PyAIter_Check = python312.PyAIter_Check",
        "  _Py_NoneStruct = python312._Py_NoneStruct",
    ]


def test_a_folder_without_the_standard_library_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty, good = tmp_path / "empty", tmp_path / "good"
    empty.mkdir()
    good.mkdir()
    monkeypatch.setattr(windows_python, "_stdlibs", lambda: iter([empty, good]))
    with pytest.raises(windows_python.CannotAssemble, match="--stdlib"):
        windows_python.find_stdlib()
    (good / "os.py").touch()
    assert windows_python.find_stdlib() == good


def test_the_lock_keeps_everything_but_numpy() -> None:
    before = "av==18.1.0 \\\n    --hash=sha256:aa\n"
    after = "psutil==7.0.0 \\\n    --hash=sha256:dd\n"
    numpy = "numpy==2.4.6 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
    changed = build_windows.lock_for_wine(before + numpy + after)
    assert changed == before + build_windows.WINE_NUMPY + "\n" + after


def test_a_lock_without_numpy_is_refused() -> None:
    with pytest.raises(build_windows.BuildFailed, match="0 times"):
        build_windows.lock_for_wine("av==18.1.0 \\\n    --hash=sha256:aa\n")


def test_of_each_library_of_the_c_runtime_the_newest_copy_is_packed() -> None:
    copies = [
        ("VCRUNTIME140.dll", (14, 38, 1, 0), "python"),
        ("vcruntime140.dll", (14, 44, 35207, 1), "qt"),
        ("msvcp140.dll", (14, 44, 1, 0), "qt"),
        ("msvcp140.dll", (14, 9, 9, 9), "system"),
    ]
    assert vc_runtime.newest(copies) == {"vcruntime140.dll": "qt", "msvcp140.dll": "qt"}


@pytest.mark.parametrize(
    ("place", "is_part"),
    [
        ("PySide6\\MSVCP140.dll", True),
        ("VCRUNTIME140_1.dll", True),
        ("msvcp140_codecvt_ids.dll", True),
        ("numpy.libs/msvcp140-263139962577ecda4cd9469ca360a746.dll", False),  # numpy's own name
        ("ucrtbase.dll", False),  # part of Windows
        ("PySide6/Qt6Core.dll", False),
    ],
)
def test_libraries_of_the_c_runtime_are_known_by_name(place: str, is_part: bool) -> None:
    assert vc_runtime.is_part(place) == is_part


def test_the_tests_for_windows_are_there() -> None:
    root = Path(__file__).parents[2]
    assert [name for name in windows_tests.FILES if not (root / name).exists()] == []
    left_out = {name.partition("::")[0] for name in windows_tests.DESELECTED}
    assert [name for name in left_out if not (root / name).exists()] == []
