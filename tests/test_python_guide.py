"""The examples of docs/python.md and README run as they stand, each in a fresh folder.

The models there are very small ones.
"""

from __future__ import annotations

import re
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
    for expected in re.findall(r"print\(.*\)  # (.+)", code):
        assert expected in printed
    for made in tmp_path.glob("*.pth"):
        engine.load_vae(made.name, device="cpu")


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 7
    assert all("import engine\n" in code for code in EXAMPLES.values())
