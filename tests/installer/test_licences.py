"""Every packed package is named in the notices and has a licence text."""

from __future__ import annotations

import re
from importlib.metadata import Distribution

import pytest

from installer import licences, project

PROGRAMS = {
    "av",
    "numpy",
    "torch",
    "pyside6-essentials",
    "shiboken6",
    "safetensors",
    "psutil",
    "rich",
}


@pytest.fixture(scope="module")
def packed() -> dict[str, Distribution]:
    everything = licences.closure(licences.direct_dependencies())
    return {n: d for n, d in everything.items() if not licences.CUDA_PACKAGE.match(n)}


def test_packed_packages_include_indirect_dependencies(packed: dict[str, Distribution]) -> None:
    assert packed.keys() >= PROGRAMS
    assert "pytest" not in packed


def test_notices_name_every_packed_package(packed: dict[str, Distribution]) -> None:
    text = (project.ROOT / "THIRD_PARTY_NOTICES.md").read_text(encoding="utf-8").lower()
    named = {name.replace("_", "-") for name in re.findall(r"[a-z0-9][a-z0-9_.-]*", text)}
    missing = [name for name in packed if name not in named]
    assert not missing


def test_notices_name_the_gpl_parts() -> None:
    text = (project.ROOT / "THIRD_PARTY_NOTICES.md").read_text(encoding="utf-8")
    for needed in ("x264", "x265", "GPL-2.0-or-later", "LGPL-3.0", "corresponding source"):
        assert needed in text


def test_every_packed_package_has_a_licence_text(packed: dict[str, Distribution]) -> None:
    for name, distribution in packed.items():
        texts = licences.texts_of(name, distribution)
        assert any(len(text) > 500 for _, text in texts), name


def test_a_package_without_a_text_stops_the_freeze(packed: dict[str, Distribution]) -> None:
    with pytest.raises(SystemExit, match="has no licence text"):
        licences.texts_of("unheard-of", packed["shiboken6"])


def test_a_cuda_build_of_torch_is_not_packed() -> None:
    licences.refuse_cuda(["torch", "nvidia-ml-py"])
    with pytest.raises(SystemExit, match="CUDA build"):
        licences.refuse_cuda(["torch", "nvidia-cublas"])


def test_the_collected_file_has_the_lgpl_and_the_gpl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(licences, "refuse_cuda", lambda _: None)
    text = licences.collect()
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in text
    assert "GNU GENERAL PUBLIC LICENSE\n                       Version 3" in text
    assert "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2" in text
