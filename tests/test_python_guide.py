"""The examples of docs/python.md and README run as they stand, each in a fresh folder.

The models there are very small ones. A wheel of this tree is a program that needs no tree.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

import engine
from tests.helpers.clips import make_clip
from tests.helpers.seedvr2 import tiny_config, write_vae
from tests.helpers.wan import tiny_wan_config, write_wan

ROOT = Path(__file__).parents[1]


def examples() -> Iterator[tuple[str, str]]:
    """Document with the line of an example, and its code."""
    for document in ("README.md", "docs/python.md"):
        text = (ROOT / document).read_text("utf-8")
        for found in re.finditer(r"```python\n(.*?)```", text, re.DOTALL):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{document}:{line}", found[1]


EXAMPLES = dict(examples())


@pytest.mark.extended
@pytest.mark.parametrize("place", EXAMPLES)
def test_an_example_runs(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_clip(tmp_path / "in.mp4", frames=30, rate=Fraction(12), size=(64, 48))
    write_vae(tmp_path / "ema_vae_fp16.safetensors", tiny_config(latent_channels=16))
    write_wan(tmp_path / "wan_2.1_vae.safetensors", tiny_wan_config("2.1"))
    code = EXAMPLES[place]
    exec(compile(code, place, "exec"), {"__name__": "__main__"})  # noqa: S102 - runs examples of docs/python.md, which is in this tree
    printed = capsys.readouterr().out
    for expected in re.findall(r"print\(.*\)\n? +# (.+)", code):
        assert expected in printed
    for made in tmp_path.glob("*.pth"):
        engine.load_vae(made.name, device="cpu")


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 7
    assert all("import engine\n" in code for code in EXAMPLES.values())


WITHOUT_TREE = """
import engine
plan = engine.plan("in.mp4", model="lite")
print(engine.__file__, engine.probe("in.mp4").video.size, plan.fits, plan.notices)
"""


@pytest.mark.extended
def test_a_wheel_works_without_the_tree(tmp_path: Path) -> None:
    tree, wheels, installed = (tmp_path / name for name in ("tree", "wheels", "installed"))
    for name in ("engine", "app", "resources"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("main.py", "pyproject.toml", "README.md", "LICENSE", "THIRD_PARTY_NOTICES.md"):
        shutil.copy(ROOT / name, tree)
    offline = ("--no-deps", "--no-index", "--disable-pip-version-check", "-q")
    run("-m", "pip", "wheel", *offline, "--no-build-isolation", "-w", wheels, tree)
    (wheel,) = wheels.glob("*.whl")
    resources = {one.relative_to(tree).as_posix() for one in (tree / "resources").rglob("*.*")}
    missing = resources - set(zipfile.ZipFile(wheel).namelist())
    assert not {one for one in missing if (tree / one).is_file()}

    run("-m", "pip", "install", *offline, "--target", installed, wheel)
    make_clip(tmp_path / "in.mp4", frames=6)
    printed = run("-c", WITHOUT_TREE, cwd=tmp_path, path=installed)
    assert printed.startswith(str(installed))
    assert "96x64 True" in printed
    assert "upscale" in run("-m", "engine", "--help", cwd=tmp_path, path=installed)


def run(*words: object, cwd: Path = ROOT, path: Path = ROOT) -> str:
    """Output of Python in another folder, with the modules of `path` before those of others."""
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
