from dataclasses import replace

import pytest

from engine import diagnostics
from engine.core import gpu_loss
from engine.core.messages import message, text_of
from engine.hardware import devices, known_faults
from engine.hardware.known_faults import VersionRange, cudnn_version
from engine.protocol.report import DoctorLine

GPU = devices.Gpu(
    name="NVIDIA GeForce RTX 4070",
    total_bytes=12 * 2**30,
    free_bytes=9 * 2**30,
    driver="580.97",
    capability=(8, 9),
)
RTX_50 = replace(GPU, name="NVIDIA GeForce RTX 5070", capability=(12, 0))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine of which GPU and versions can be set."""
    import torch

    monkeypatch.setattr(devices, "in_use", lambda: GPU)
    monkeypatch.setattr(torch, "__version__", "2.13.0+cu130")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91900)
    monkeypatch.setattr("sys.platform", "win32")
    return monkeypatch


def examined() -> list[DoctorLine]:
    """What the self-test says of the libraries."""
    return diagnostics._lines(diagnostics._gpu_libraries)


def test_versions_without_faults_are_one_line(machine: pytest.MonkeyPatch) -> None:
    (line,) = examined()
    assert line.state == "ok"
    assert str(line.message) == "torch 2.13.0, CUDA 13.0, cuDNN 9.19.0, driver 580.97"


def test_each_known_fault_names_effect_remedy_and_reports(machine: pytest.MonkeyPatch) -> None:
    import torch

    machine.setattr(torch, "__version__", "2.9.1+cu128")
    machine.setattr(torch.version, "cuda", "12.8")
    machine.setattr(torch.backends.cudnn, "version", lambda: 91002)
    _, fault = examined()
    assert (fault.name, fault.state) == ("known fault", "warning")
    assert "several times the memory" in str(fault.message)
    assert "pytorch #166643" in str(fault.message)
    assert "cuDNN 9.15" in str(fault.hint)
    assert "数倍内存" in text_of(fault.message, "zh_CN")


@pytest.mark.parametrize(
    ("torch_version", "cuda", "cudnn", "gpu", "faults"),
    [
        ("2.9.0", "12.8", 91002, GPU, ["conv3d-off", "conv3d-tf32"]),
        ("2.9.1", "13.0", 91501, GPU, []),
        ("2.10.0", "12.6", 91002, GPU, ["conv3d-memory"]),
        ("2.8.0", "12.8", 91002, GPU, ["conv3d-wrong", "conv3d-tf32"]),
        ("2.8.0", "12.6", 90501, RTX_50, ["no-blackwell"]),
        ("2.8.0", "12.6", 90501, GPU, []),
        ("2.13.0", "13.0", 91900, replace(GPU, driver="572.16"), ["driver-before-cuda-13"]),
        ("2.8.0", "12.6", 90501, replace(GPU, driver="566.36"), ["no-encoder"]),
        (
            "2.8.0",
            "12.6",
            90501,
            replace(GPU, driver="537.42"),
            ["no-encoder", "spilling-not-optional"],
        ),
    ],
)
def test_faults_are_found_by_all_versions_together(
    machine: pytest.MonkeyPatch,
    torch_version: str,
    cuda: str,
    cudnn: int,
    gpu: devices.Gpu,
    faults: list[str],
) -> None:
    import torch

    machine.setattr(devices, "in_use", lambda: gpu)
    machine.setattr(torch, "__version__", torch_version)
    machine.setattr(torch.version, "cuda", cuda)
    machine.setattr(torch.backends.cudnn, "version", lambda: cudnn)
    effects = [str(line.message).partition(" Reported: ")[0] for line in examined()[1:]]
    assert effects == [str(message(f"known-fault.{name}")) for name in faults]


def test_a_fault_of_windows_is_none_elsewhere(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(devices, "in_use", lambda: replace(GPU, driver="545.23"))
    machine.setattr("sys.platform", "linux")
    assert not any("moves it to RAM" in str(line.message) for line in examined())


def test_losses_with_the_present_driver_are_a_warning(machine: pytest.MonkeyPatch) -> None:
    gpu_loss.keep(GPU.name, "580.97", "unspecified launch failure")
    _, line = examined()
    assert (line.name, line.state) == ("GPU losses", "warning")
    assert "1 time)" in str(line.message)
    assert "unspecified launch failure" in str(line.message)
    machine.setattr(devices, "in_use", lambda: replace(GPU, driver="581.29"))
    assert len(examined()) == 1


def test_without_a_gpu_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "in_use", lambda: None)
    assert examined() == []


def test_a_build_for_gpus_has_its_versions_without_a_driver(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(devices, "in_use", lambda: None)
    (line,) = examined()
    assert str(line.message) == "torch 2.13.0, CUDA 13.0, cuDNN 9.19.0"


def test_a_build_for_the_processor_has_neither_cuda_nor_cudnn(machine: pytest.MonkeyPatch) -> None:
    import torch

    machine.setattr(torch.version, "cuda", None)
    (line,) = examined()
    assert str(line.message) == "torch 2.13.0, driver 580.97"


def test_every_fault_has_evidence_texts_and_a_limit() -> None:
    table = known_faults.known_faults()
    for name, fault in table.items():
        assert fault.evidence, name
        assert any(known.before for known in fault.versions.values()), name  # it ends somewhere
        for language in ("en", "zh_CN"):
            effect = message(f"known-fault.{name}")
            assert text_of(effect, language) != effect.code
            assert text_of(effect.hint, language), name


def test_versions_are_compared_by_their_numbers() -> None:
    known = VersionRange(first="9.8", before="9.15")
    assert [known.has(v) for v in ("9.7.9", "9.8", "9.14.0", "9.15", "10.0")] == [
        *(False, True, True, False, False)
    ]
    assert VersionRange(before="546.01").has("545.92")
    assert (cudnn_version(91002), cudnn_version(8907)) == ("9.10.2", "8.9.7")
