import pytest

from tools.windows_build import build, windows_python

LISTING = """
The Export Tables (interpreted .rdata section contents)

Export Address Table -- Ordinal Base 1
\t[   0] +base[   1] 1234 Export RVA

[Ordinal/Name Pointer] Table
\t[   0] PyAIter_Check
\t[   1] _Py_NoneStruct

The Function Table (interpreted .pdata section contents)
"""


def test_every_export_is_forwarded():
    names = windows_python.exported_names(LISTING)
    assert names == ["PyAIter_Check", "_Py_NoneStruct"]
    definition = windows_python.forwarding(names, "python312")
    assert definition.splitlines() == [
        "EXPORTS",
        "  PyAIter_Check = python312.PyAIter_Check",
        "  _Py_NoneStruct = python312._Py_NoneStruct",
    ]


def test_a_folder_without_the_standard_library_is_skipped(tmp_path, monkeypatch):
    empty, good = tmp_path / "empty", tmp_path / "good"
    empty.mkdir()
    good.mkdir()
    monkeypatch.setattr(windows_python, "_stdlib_candidates", lambda: iter([empty, good]))
    with pytest.raises(windows_python.AssemblyFailed, match="--stdlib"):
        windows_python.find_stdlib()
    (good / "os.py").touch()
    assert windows_python.find_stdlib() == good


def test_the_lock_keeps_everything_but_numpy():
    before = "av==18.1.0 \\\n    --hash=sha256:aa\n"
    after = "psutil==7.0.0 \\\n    --hash=sha256:dd\n"
    numpy = "numpy==2.4.6 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
    changed = build.lock_for_wine(before + numpy + after)
    assert changed == before + build.WINE_NUMPY + "\n" + after
    with pytest.raises(build.BuildFailed, match="0 times"):
        build.lock_for_wine(before)
