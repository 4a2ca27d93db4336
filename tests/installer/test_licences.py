import re
from importlib.metadata import Distribution

import pytest

from installer import licences, project

PROGRAMS = {"av", "numpy", "torch", "pyside6-essentials", "shiboken6", "safetensors", "rich"}


@pytest.fixture(scope="module")
def packed() -> dict[str, Distribution]:
    everything = licences.closure(licences.direct_dependencies())
    return {n: d for n, d in everything.items() if not licences.CUDA_PACKAGE.match(n)}


def test_notices_name_packages_and_the_gpl_parts(packed):
    assert packed.keys() >= PROGRAMS, "indirect dependencies too"
    assert "pytest" not in packed
    text = (project.ROOT / "THIRD_PARTY_NOTICES.md").read_text(encoding="utf-8")
    words = re.findall(r"[a-z0-9][a-z0-9_.-]*", text.lower())
    assert not packed.keys() - {name.replace("_", "-") for name in words}
    for needed in ("x264", "x265", "GPL-2.0-or-later", "LGPL-3.0", "corresponding source"):
        assert needed in text


@pytest.mark.extended
def test_every_packed_package_has_a_licence_text(packed):
    for name, distribution in packed.items():
        texts = licences.texts_of(name, distribution)
        assert any(len(text) > 500 for _, text in texts), name
    with pytest.raises(SystemExit, match="has no licence text"):
        licences.texts_of("unheard-of", packed["shiboken6"])


def test_the_collected_file_has_lgpl_and_gpl_and_no_cuda_build(monkeypatch):
    licences.refuse_cuda(["torch", "nvidia-ml-py"])
    with pytest.raises(SystemExit, match="CUDA build"):
        licences.refuse_cuda(["torch", "nvidia-cublas"])
    monkeypatch.setattr(licences, "refuse_cuda", lambda _: None)
    text = licences.collect()
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in text
    assert "GNU GENERAL PUBLIC LICENSE\n                       Version 3" in text
    assert "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2" in text
