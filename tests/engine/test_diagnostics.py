import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine import diagnostics
from engine.core import paths
from engine.core.errors import WeightsMissing
from engine.hardware import devices, gpu_reading, nvml, shared_memory
from engine.hardware.gpu_reading import PcieLink
from engine.models import registry
from engine.models.lite import files
from engine.protocol.gpu_reading import GpuProcess
from engine.protocol.report import DoctorLine

GIB = 2**30
GPU = devices.Gpu(
    name="NVIDIA GeForce RTX 4070",
    total_bytes=12 * GIB,
    free_bytes=9 * GIB,
    driver="580.1",
    capability=(8, 9),
)


def lines_of(check: Callable[[], Iterator[DoctorLine]]) -> dict[str, DoctorLine]:
    """The lines of a check by their names."""
    return {line.name: line for line in diagnostics._lines(check)}


def states_of(check: Callable[[], Iterator[DoctorLine]]) -> list[str]:
    return [line.state for line in diagnostics._lines(check)]


def test_this_machine_can_do_the_work() -> None:
    lines = [
        line
        for check in diagnostics.CHECKS
        if check.__name__ not in ("_encoders", "_weights")
        for line in diagnostics._lines(check)
    ]
    assert [line for line in lines if line.state == "problem"] == []
    names = {line.name for line in lines}
    assert {"python", "torch", "arithmetic", "av", "ffmpeg libraries", "disk", "GPU"} <= names
    assert all(str(line.hint) for line in lines if line.state != "ok")


def test_an_exception_in_a_check_is_a_problem() -> None:
    def _broken() -> Iterator[DoctorLine]:
        yield diagnostics._ok("first", "version", version="1")
        raise RuntimeError("no floor")

    first, second = diagnostics._lines(_broken)
    assert (first.state, second.state) == ("ok", "problem")
    assert second.name == "broken"
    assert str(second.message) == "RuntimeError: no floor"


def test_torch_that_fails_or_computes_wrongly_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    right = torch.nn.functional.conv2d
    monkeypatch.setattr(torch.nn.functional, "conv2d", lambda x, w: right(x, w) * 1.001)
    assert lines_of(diagnostics._torch)["arithmetic"].state == "problem"
    monkeypatch.setitem(sys.modules, "torch", None)
    (line,) = diagnostics._lines(diagnostics._torch)
    assert line.state == "problem"
    assert "Visual C++" in str(line.hint)


def test_the_variant_of_convolutions_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from engine.ops.conv import trial

    line = lines_of(diagnostics._convolutions)["convolutions (CPU)"]
    assert "2D: " in str(line.message)
    bad = trial.ConvolutionChoice(form="2d", reason="neither form works", is_sound=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(trial, "probe_convolution", lambda device, dtype: bad)
    lines = lines_of(diagnostics._convolutions)
    assert [line.state for line in lines.values()] == ["problem"] * 3
    assert "driver" in str(lines["convolutions (GPU, float16)"].hint)


def test_kernels_that_fail_on_a_gpu_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from engine.ops.kernels import conv
    from engine.ops.kernels.blocks import KERNELS

    assert not lines_of(diagnostics._kernels)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    works = "engine.ops.kernels.build.KernelFamily.working"
    monkeypatch.setattr(works, lambda family, *_: True)
    monkeypatch.setattr(conv, "working", lambda gpu: False)
    half, bfloat = lines_of(diagnostics._kernels).values()
    assert (half.state, bfloat.state) == ("warning", "ok")
    assert "convolution" in str(half.message)
    monkeypatch.setattr(conv, "working", lambda gpu: True)
    assert {line.state for line in lines_of(diagnostics._kernels).values()} == {"ok"}
    monkeypatch.setattr(works, lambda family, *_: family is not KERNELS)
    lines = lines_of(diagnostics._kernels)
    assert {line.state for line in lines.values()} == {"warning"}
    assert "weight block" in str(lines["kernels (GPU, float16)"].message)


def test_encoders_that_do_not_open_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.video.write import codecs

    monkeypatch.setattr(codecs, "encoder_works", lambda name: name == "ffv1")
    monkeypatch.setattr(nvml, "handles", lambda: ("gpu",))
    lines = lines_of(diagnostics._encoders)
    names = {"libx264": "problem", "ffv1": "ok", "hevc_nvenc": "warning"}
    for name, state in names.items():
        assert lines[f"encoder {name}"].state == state


def test_files_and_folders_that_cannot_be_used_are_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("UPREEL_DATA", str(tmp_path / "file"))
    lines = lines_of(diagnostics._folders)
    assert (lines["job folder"].state, lines["cache folder"].state) == ("problem", "ok")
    monkeypatch.setenv("UPREEL_DATA", str(tmp_path))
    (tmp_path / "settings.toml").write_text("[engine\n")
    (line,) = diagnostics._lines(diagnostics._settings)
    assert line.state == "problem"
    assert "settings.toml" in str(line.hint)
    monkeypatch.setenv("UPREEL_DATA", "/" + "a" * 230)
    assert diagnostics._path_length().state == "ok"
    monkeypatch.setattr(paths, "takes_long_paths", lambda: False)
    assert diagnostics._path_length().state == "problem"
    monkeypatch.setenv("UPREEL_RESOURCES", str(tmp_path))
    assert states_of(diagnostics._resources) == ["problem"]


def test_lite_models_work_unless_weights_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = dict(registry.family("lite").self_tests())
    assert list(trials) == [file.name for file in files.FILES]
    for name in ("lite_x2_faithful.safetensors", "lite_plus_x4_restore.safetensors"):
        state, text = trials[name]()
        assert state == "ok", name
        assert "grey stays grey" in str(text)

    def missing(name: str) -> Path:
        raise WeightsMissing("built-in", file=name)

    monkeypatch.setattr(files, "weights_path", missing)
    assert states_of(diagnostics._weights) == ["problem"] * len(files.FILES)


def test_little_space_or_memory_is_a_warning_or_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    for free_gb, state in ((6, "ok"), (3, "warning"), (0.5, "problem")):
        usage = SimpleNamespace(free=round(free_gb * 10**9))
        monkeypatch.setattr(diagnostics.shutil, "disk_usage", lambda _, usage=usage: usage)
        assert states_of(diagnostics._disk) == [state]
    monkeypatch.setattr(devices, "ram", lambda: (8 * GIB, GIB))
    assert states_of(diagnostics._memory) == ["warning"]


def test_a_gpu_that_this_torch_cannot_use_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(devices, "gpus", lambda: (GPU,))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    (line,) = diagnostics._lines(diagnostics._gpu)
    assert line.state == "warning"
    assert "RTX 4070" in str(line.message)


def test_optimisations_that_are_not_as_usual_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    line = lines_of(diagnostics._optimisations)["optimisations"]
    assert str(line.message) == "all at their defaults"
    monkeypatch.setenv("UPREEL_VAE_TEMPORAL_WINOGRAD", "on")
    monkeypatch.setenv("UPREEL_DIT_ATTENTION", "math")
    line = lines_of(diagnostics._optimisations)["optimisations"]
    assert str(line.message) == "in the environment: vae.temporal_winograd=on,dit.attention=math"
    monkeypatch.setenv("UPREEL_RUN_FLY", "on")
    assert lines_of(diagnostics._optimisations)["optimisations"].state == "problem"


def test_presets_of_the_gpu_are_listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UPREEL_DATA", str(tmp_path))
    monkeypatch.setenv("UPREEL_PRETEND_GPU", "RTX 5070 Ti")
    presets = (
        "fast seedvr2-7b-sharp (working_size=70), balanced seedvr2-7b-sharp (working_size=84), "
        "best seedvr2-7b-sharp"
    )
    line = lines_of(diagnostics._presets)["presets"]
    assert str(line.message) == f"RTX 5070 Ti, 16 GB: {presets}"
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "bad.toml").write_text("")
    assert states_of(diagnostics._presets)[1] == "warning"


def test_a_link_narrower_than_the_gpu_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver counts the lanes of the slot; those of the GPU are in the table."""
    monkeypatch.setattr(devices, "gpus", lambda: (GPU,))
    for generation, width, state, text in (
        (3, 16, "ok", "PCIe 3.0 x16 of x16, 16 of 32 GB/s"),
        (4, 8, "warning", "PCIe 4.0 x8 of x16, 16 of 32 GB/s"),
    ):
        link = PcieLink(generation=generation, width=width, gpu_generation=4, gpu_width=width)
        monkeypatch.setattr(gpu_reading, "link_of", lambda _, link=link: link)
        (line,) = diagnostics._gpu_link()
        assert line.state == state
        assert text in str(line.message)
        assert bool(str(line.hint)) == (state == "warning")


def test_programs_that_use_much_gpu_memory_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "gpus", lambda: (GPU,))
    small = (GpuProcess(name="dwm.exe", mb=512), GpuProcess(name="x.exe", mb=None))
    for found, state, text in (
        ((), "ok", "no other programs"),
        (small, "ok", "dwm.exe 0.5 GB, x.exe"),
        ((GpuProcess(name="game.exe", mb=4096),), "warning", "game.exe 4.0 GB"),
    ):
        monkeypatch.setattr(gpu_reading, "other_programs", lambda found=found: found)
        (line,) = diagnostics._gpu_programs()
        assert (line.state, str(line.message)) == (state, text)
    monkeypatch.setattr(sys, "platform", "win32")
    for counted, state in ((0, "ok"), (None, "warning")):  # Windows may have broken counters
        monkeypatch.setattr(shared_memory, "own_bytes", lambda counted=counted: counted)
        assert states_of(diagnostics._gpu_spilling) == [state]


def test_without_a_gpu_or_its_link_there_are_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "gpus", lambda: (GPU,))
    monkeypatch.setattr(gpu_reading, "link_of", lambda _: None)
    assert list(diagnostics._gpu_link()) == []
    monkeypatch.setattr(devices, "gpus", tuple)
    for check in (diagnostics._gpu_link, diagnostics._gpu_programs, diagnostics._gpu_spilling):
        assert list(check()) == []
