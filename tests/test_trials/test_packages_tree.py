import shutil
from pathlib import Path

import pytest

from tests.trials.packaging import packages_tree

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (*packages_tree._CONTENTS, "resources"):
        source = ROOT / name
        if source.is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, tmp_path / name)
        else:
            kept_out = shutil.ignore_patterns("__pycache__", "*.safetensors", "*.mp4", "wine-*")
            shutil.copytree(source, tmp_path / name, ignore=kept_out, dirs_exist_ok=True)
    (tmp_path / "engine" / "models").mkdir(parents=True)
    (tmp_path / "engine" / "models" / "some.py").write_text("import numpy\nBLOCKS = 12\n")
    return tmp_path


def test_unrelated_changes_keep_the_hash(tree):
    before = packages_tree.tree_hash(tree)
    (tree / "engine" / "models" / "some.py").write_text("import numpy\nBLOCKS = 13\n")
    (tree / packages_tree.RECORD).write_text("{}")
    (tree / "installer" / "README.md").write_text("Another text.")
    (tree / "installer" / "__pycache__").mkdir(exist_ok=True)
    (tree / "installer" / "__pycache__" / "wine.pyc").write_bytes(b"1")
    assert packages_tree.tree_hash(tree) == before


@pytest.mark.extended
def test_changes_that_packages_depend_on_and_external_imports_change_the_hash(tree):
    seen = {packages_tree.tree_hash(tree)}
    for name, text in (
        ("installer/app.spec", "# one more line\n"),
        ("installer/new.nsi", "Name x\n"),
        ("tools/windows_build/wine.py", "# one more line\n"),
        ("pyproject.toml", "# one more line\n"),
        ("engine/models/some.py", "import csv\n"),
        ("engine/models/some.py", "def late():\n    from numpy.linalg import svd\n"),
        ("resources/new.toml", ""),
        ("engine/models/new.cu", ""),
    ):
        with (tree / name).open("a", encoding="utf-8") as file:
            file.write(text)
        found = packages_tree.tree_hash(tree)
        assert found not in seen, name
        seen.add(found)
    (tree / "main.py").unlink()
    with pytest.raises(FileNotFoundError, match=r"main\.py"):
        packages_tree.tree_hash(tree)
    found = packages_tree.imports(ROOT)
    assert {"torch", "av", "PySide6.QtWidgets", "json"} <= found
    assert not any(name.partition(".")[0] in {"app", "engine", "__future__"} for name in found)
