from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine import diagnostics
from engine.core.errors import WeightsMissing
from engine.hardware import devices, nvml
from engine.models import registry
from engine.models.lite import files
from engine.protocol.report import DoctorLine

GIB = 2**30


def only(lines: list[DoctorLine], name: str) -> DoctorLine:
    (line,) = [line for line in lines if line.name == name]
    return line


def test_this_machine_can_do_the_work() -> None:
    lines = [
        line
        for check in diagnostics.CHECKS
        if check.__name__ not in ("_encoders", "_weights")
        for line in diagnostics._lines(check)
    ]
    assert [line for line in lines if line.state == "problem"] == []
    names = {line.name for line in lines}
    assert {"python", "torch", "arithmetic", "av", "ffmpeg libraries", "disk", "card"} <= names
    assert all(line.hint for line in lines if line.state != "ok")


def test_a_check_that_breaks_is_a_problem() -> None:
    def _broken() -> Iterator[DoctorLine]:
        yield diagnostics._ok("first", "fine")
        raise RuntimeError("no floor")

    first, second = diagnostics._lines(_broken)
    assert (first.state, second.state) == ("ok", "problem")
    assert second.name == "broken"
    assert "no floor" in second.message


def test_torch_that_does_not_load_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    (line,) = diagnostics._lines(diagnostics._torch)
    assert line.state == "problem"
    assert "Visual C++" in line.hint


def test_wrong_arithmetic_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    right = torch.nn.functional.conv2d
    monkeypatch.setattr(torch.nn.functional, "conv2d", lambda x, w: right(x, w) * 1.001)
    assert only(diagnostics._lines(diagnostics._torch), "arithmetic").state == "problem"


def test_the_form_of_convolutions_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from engine.ops.conv import trial

    assert (
        "2D: "
        in only(diagnostics._lines(diagnostics._convolutions), "convolutions (processor)").message
    )
    bad = trial.ConvolutionChoice(form="2d", reason="neither form is right", is_sound=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(trial, "probe_convolution", lambda device, dtype: bad)
    lines = diagnostics._lines(diagnostics._convolutions)
    assert [line.state for line in lines] == ["problem"] * 3
    assert "driver" in only(lines, "convolutions (card, float16)").hint


def test_encoders_that_do_not_open_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.video.write import codecs

    monkeypatch.setattr(codecs, "encoder_works", lambda name: name == "ffv1")
    monkeypatch.setattr(nvml, "handles", lambda: ("card",))
    lines = diagnostics._lines(diagnostics._encoders)
    assert only(lines, "encoder libx264").state == "problem"
    assert only(lines, "encoder ffv1").state == "ok"
    assert only(lines, "encoder hevc_nvenc").state == "warning"


def test_missing_weights_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Path:
        raise WeightsMissing(f"The model file {name} is missing.", hint="Install Upreel again.")

    monkeypatch.setattr(files, "weights_path", missing)
    lines = diagnostics._lines(diagnostics._weights)
    assert len(lines) == 4
    assert {line.state for line in lines} == {"problem"}


def test_the_shipped_x2_model_works() -> None:
    trials = dict(registry.family("lite").self_tests())
    assert "keeps grey" in trials["lite_x2_faithful.safetensors"]()


def test_missing_resources_are_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPREEL_RESOURCES", str(tmp_path))
    (line,) = diagnostics._lines(diagnostics._resources)
    assert line.state == "problem"


def test_a_folder_that_cannot_be_written_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("UPREEL_DATA", str(tmp_path / "file"))
    lines = diagnostics._lines(diagnostics._folders)
    assert only(lines, "jobs folder").state == "problem"
    assert only(lines, "cache folder").state == "ok"


def test_long_paths_are_a_problem_only_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPREEL_DATA", "/" + "a" * 230)
    assert diagnostics._path_length().state == "ok"
    monkeypatch.setattr(diagnostics, "_takes_long_paths", lambda: False)
    assert diagnostics._path_length().state == "problem"


@pytest.mark.parametrize(("free", "state"), [(6, "ok"), (3, "warning"), (0.5, "problem")])
def test_little_space_is_said(monkeypatch: pytest.MonkeyPatch, free: float, state: str) -> None:
    usage = SimpleNamespace(free=round(free * 10**9))
    monkeypatch.setattr(diagnostics.shutil, "disk_usage", lambda _: usage)
    (line,) = diagnostics._lines(diagnostics._disk)
    assert line.state == state


def test_little_memory_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "ram", lambda: (8 * GIB, GIB))
    (line,) = diagnostics._lines(diagnostics._memory)
    assert line.state == "warning"


def test_a_card_that_this_torch_cannot_use_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    card = devices.Gpu(
        name="NVIDIA Test",
        total_bytes=16 * GIB,
        free_bytes=15 * GIB,
        driver="580",
        capability=(12, 0),
    )
    monkeypatch.setattr(devices, "gpus", lambda: (card,))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    (line,) = diagnostics._lines(diagnostics._card)
    assert line.state == "warning"
    assert "NVIDIA Test" in line.message


def test_damaged_settings_are_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPREEL_DATA", str(tmp_path))
    (tmp_path / "settings.toml").write_text("[engine\n")
    (line,) = diagnostics._lines(diagnostics._settings)
    assert line.state == "problem"
    assert "settings.toml" in line.hint


def test_optimisations_that_are_not_as_usual_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        only(diagnostics._lines(diagnostics._optimisations), "optimisations").message
        == "all as usual"
    )
    monkeypatch.setenv("UPREEL_VAE_TEMPORAL_WINOGRAD", "on")
    monkeypatch.setenv("UPREEL_DIT_ATTENTION", "math")
    line = only(diagnostics._lines(diagnostics._optimisations), "optimisations")
    assert line.message == "by environment: vae.temporal_winograd=on,dit.attention=math"
    monkeypatch.setenv("UPREEL_RUN_FLY", "on")
    assert only(diagnostics._lines(diagnostics._optimisations), "optimisations").state == "problem"


def test_presets_of_the_card_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UPREEL_DATA", str(tmp_path))
    monkeypatch.setenv("UPREEL_PRETEND_GPU", "RTX 5070 Ti")
    line = only(diagnostics._lines(diagnostics._presets), "presets")
    assert line.message == (
        "RTX 5070 Ti, 16 GB: fast lite, balanced seedvr2-7b-sharp, best seedvr2-7b-sharp fp16"
    )
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "bad.toml").write_text("")
    assert diagnostics._lines(diagnostics._presets)[1].state == "warning"
