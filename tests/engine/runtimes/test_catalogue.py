import dataclasses
import re
import sys
from pathlib import Path

import pytest

from engine.core.errors import RuntimePackError, UnknownRuntime
from engine.core.paths import resource
from engine.hardware.gpu_table import gpu_specs
from engine.runtimes import catalogue
from engine.runtimes.catalogue import Wheel
from tests.helpers import runtimes

DIGEST = "0" * 64


def test_the_catalogue_has_a_runtime_for_every_gpu_of_the_table() -> None:
    for gpu in gpu_specs():
        found = catalogue.suited(catalogue.catalogue(), gpu.capability)
        assert found is not None, gpu.name
        assert found.id == "cu130"


def test_gpu_and_driver_decide_what_runs() -> None:
    cu130, cu126 = catalogue.catalogue()
    for driver, capability, wanted in (
        ("581.29", (12, 0), [cu130]),
        ("580.00", (7, 5), [cu130, cu126]),
        ("579.99", (8, 9), [cu126]),
        ("579.99", (12, 0), []),  # CUDA 12.6 has no code for it
        ("528.33", (7, 5), [cu126]),
        ("528.2", (7, 5), []),
        ("1000.5", (8, 9), [cu130, cu126]),  # greater as a number, smaller as a text
        ("99.9", (8, 9), []),
        ("581.29", (6, 1), []),
        ("581.29", None, []),
        ("", (8, 6), []),
    ):
        found = [one for one in (cu130, cu126) if one.runs_on(driver, capability)]
        assert found == wanted, (driver, capability)


def test_it_is_the_version_of_torch_that_the_program_is_made_with() -> None:
    known = catalogue.catalogue()
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8")
    assert f'"torch=={known.torch}"' in text
    for runtime in known:
        assert runtime.torch == f"{known.torch}+{runtime.id}"
        for wheel in runtime.wheels:
            assert wheel.filename.startswith(f"torch-{runtime.torch}-{known.python}-")


def test_a_wheel_is_its_size_and_hash(tmp_path: Path) -> None:
    for size, digest in ((0, DIGEST), (1, ""), (1, DIGEST[1:]), (1, "todo" * 16)):
        with pytest.raises(ValueError, match=r"a\.whl: "):
            Wheel(filename="a.whl", bytes=size, sha256=digest)
    text = resource("runtime.toml").read_text("utf-8")
    for name in ("bytes", "sha256"):
        path = tmp_path / "runtime.toml"
        path.write_text(re.sub(rf"^{name} = .*\n", "", text, flags=re.MULTILINE))
        with pytest.raises(RuntimePackError, match="cannot be read"):
            catalogue.load(path)


def test_the_python_of_a_wheel_is_in_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Version:
        major, minor = 3, 12

    monkeypatch.setattr(sys, "version_info", Version)
    for tags, system, suits in (
        ("py3-none-any", "win-amd64", True),
        ("cp312-cp312-win_amd64", "win-amd64", True),
        ("py3-none-win_amd64", "win-amd64", True),
        ("cp311-cp311-win_amd64", "win-amd64", False),
        ("cp312-cp312t-win_amd64", "win-amd64", False),
        ("cp312-cp312-win_arm64", "win-amd64", False),
        ("cp312-cp312-manylinux_2_28_x86_64", "win-amd64", False),
        ("cp312-cp312-manylinux_2_28_x86_64", "linux-x86_64", True),
        ("cp312-cp312-linux_x86_64", "linux-x86_64", True),
        ("cp312-cp312-manylinux_2_28_aarch64", "linux-x86_64", False),
        ("cp312-cp312-win_amd64", "linux-x86_64", False),
    ):
        monkeypatch.setattr(catalogue.sysconfig, "get_platform", lambda system=system: system)
        wheel = Wheel(filename=f"torch-1+a-{tags}.whl", bytes=1, sha256=DIGEST)
        assert wheel.suits_this_python is suits, tags


def test_a_catalogue_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    for text in ("", "index = 3", "index = ["):
        path = tmp_path / "runtime.toml"
        path.write_text(text)
        with pytest.raises(RuntimePackError, match="cannot be read"):
            catalogue.load(path)
    with pytest.raises(RuntimePackError):
        catalogue.load(tmp_path / "none.toml")
    with pytest.raises(UnknownRuntime):
        catalogue.load(resource("runtime.toml")).runtime("cu1")


def test_another_wheel_is_another_folder(tmp_path: Path) -> None:
    one = runtimes.runtime(runtimes.wheel(tmp_path))
    other = dataclasses.replace(one.wheels[0], sha256=DIGEST)
    assert one.folder_name.startswith("cu999-9.9.9-")
    assert one.folder_name != dataclasses.replace(one, wheels=(other,)).folder_name
