from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from engine.core.errors import ChoiceMissing
from engine.ops.choices import Choices, following
from engine.ops.kernels import build, channel_norm, driver, group_norm, heads, nvrtc, token_rows
from engine.ops.kernels.build import checked, vector_width
from tests.helpers.extended import extended
from tests.helpers.kernels import host_module

WHAT = ("test", torch.device("cuda", 0), torch.float32)


class OnGpu(torch.Tensor):
    """Frames of the processor that say they are on a GPU."""

    device = torch.device("cuda", 0)


FAMILIES = {  # module, class and macro; kernels that `_error` launches
    "channel_norm": (channel_norm, channel_norm.ChannelNormKernel, "PACKS", ["rms_norm"]),
    "group_norm": (group_norm, group_norm.GroupNormKernels, "GROUP", ["normalise"]),
    "heads": (heads, heads.HeadKernel, "LANES", ["gather_qk"]),
    "token_rows": (
        *(token_rows, token_rows.RowKernels, "PACKS"),
        ["rms_modulate", "add_gated", "swiglu"],
    ),
}


def test_sixteen_bytes_are_read_where_everything_is_aligned():
    buffer = torch.zeros(3, 4, 64, dtype=torch.float16)
    assert vector_width(buffer) == 8
    assert vector_width(buffer, buffer[:, 1:, 8:].new_zeros(2, 24)) == 8
    assert vector_width(buffer[..., 4:]) == 4
    assert vector_width(buffer[..., :34]) == 2
    assert vector_width(buffer[..., 1:]) == 1
    assert vector_width(buffer, torch.zeros(5, 63, dtype=torch.float16)[:, :62]) == 1
    assert vector_width(torch.zeros(3, 8)) == 4


def test_no_thread_reads_tensors_of_other_layouts():
    x = torch.zeros(4, 8)
    for tensors in ([x.t()], [x, x.half()], [x.double()], [x, x.to("meta")], [x[:0]]):
        assert vector_width(*tensors) == 0


def test_kernels_count_when_their_error_is_rounding(caplog):
    for error, works in ((1e-6, True), (1e-3, False), (float("nan"), False)):
        caplog.clear()
        found = checked(WHAT, lambda: "kernels", lambda _, error=error: error)
        assert found == ("kernels" if works else None)
        assert len(caplog.records) == (not works)


def test_a_processor_has_no_kernels(caplog):
    processor = torch.device("cpu")
    frames = torch.zeros(1, 8, 3, 3).to(memory_format=torch.channels_last)
    assert not build.is_gpu(processor)
    for family, *_ in FAMILIES.values():
        assert not any(family.working(processor, dtype) for dtype in build.DTYPES)
    assert channel_norm.find(frames) is group_norm.find(frames, 2) is None
    assert token_rows.find(torch.zeros(4, 16)) is None
    assert not caplog.records


@pytest.mark.parametrize("name", FAMILIES)
def test_what_fails_switches_kernels_off_with_one_warning(name, gpu, monkeypatch, caplog):
    family = FAMILIES[name][0]
    failures = [
        (nvrtc, "find", nvrtc.NvrtcMissing("no library here")),
        (nvrtc, "compile_cuda", nvrtc.CompileFailed("upreel.cu(1): error")),
        (driver, "Module", driver.DriverFailed("cuModuleLoadData: no binary for this GPU")),
    ]
    for module, function, error in failures:
        if module is driver:
            monkeypatch.setattr(nvrtc, "compile_cuda", lambda *_: b"a cubin")
        monkeypatch.setattr(module, function, Mock(side_effect=error))
        forget(family)
        caplog.clear()
        assert not family.working(gpu, torch.float16)
        assert not family.working(gpu, torch.float16)
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        assert str(error) in record.getMessage()


def compiled(
    folder: Path, name: str, wrong: str, _: object, dtype: torch.dtype, vector: int, count: int
) -> Any:
    """Kernels of a family as the processor runs them, but for one that does nothing."""
    _, kind, macro, _ = FAMILIES[name]
    module = host_module(folder, name, dtype, VECTOR=vector, **{macro: count})
    launch = module.launch
    module.launch = lambda name, *rest: name == wrong or launch(name, *rest)
    return kind(module)


@pytest.mark.parametrize("name", ["token_rows", "heads", *extended("group_norm", "channel_norm")])
def test_right_kernels_stay_on_and_a_wrong_one_switches_its_family_off(
    name, gpu, folder, monkeypatch, caplog
):
    family, launches = FAMILIES[name][0], FAMILIES[name][-1]
    for wrong in ["", *launches]:
        monkeypatch.setattr(family.KERNELS, "compile", partial(compiled, folder, name, wrong))
        forget(family)
        caplog.clear()
        for dtype in build.DTYPES:
            assert family.working(gpu, dtype) == (not wrong), wrong
        assert len(caplog.records) == len(build.DTYPES) * bool(wrong)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_dtype_that_fails_leaves_the_others(name, gpu, folder, monkeypatch):
    family = FAMILIES[name][0]

    def compiled_or_not(form: object, dtype: torch.dtype, *rest: int) -> Any:
        if dtype == torch.bfloat16:
            raise nvrtc.CompileFailed("no bfloat16 here")
        return compiled(folder, name, "", form, dtype, *rest)

    monkeypatch.setattr(family.KERNELS, "compile", compiled_or_not)
    forget(family)
    works = {dtype: family.working(gpu, dtype) for dtype in build.DTYPES}
    assert works == {dtype: dtype != torch.bfloat16 for dtype in build.DTYPES}
    if family is group_norm:
        monkeypatch.setattr(build, "processors", lambda device: 2)
        for dtype in build.DTYPES:
            x = OnGpu(torch.zeros(1, 8, 3, 3, dtype=dtype).to(memory_format=torch.channels_last))
            assert (family.find(x, 2) is not None) == works[dtype]


def test_work_that_does_without_failed_kernels_is_reported_with_the_reason(
    gpu: Any, folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels, found = token_rows.KERNELS, []
    about = gpu, torch.float16, 8, kernels.usual(8)
    refused = Mock(side_effect=nvrtc.NvrtcMissing("no library here"))
    monkeypatch.setattr(kernels, "compile", refused)
    forget(token_rows)
    with build.reporting_missing(lambda *one: found.append(one)):
        assert kernels.load(*about) is None
        with following(Choices()):
            assert kernels.load(*about) is None, "the job's choice, but for that reason"
        assert found == [(kernels.title, "no library here")] * 2
        monkeypatch.setattr(kernels, "compile", partial(compiled, folder, "token_rows", ""))
        forget(token_rows)
        assert kernels.load(*about) is not None
    forget(token_rows)
    monkeypatch.setattr(kernels, "compile", refused)
    assert kernels.load(*about) is None
    assert len(found) == 2, "nobody listens any more"
    forget(token_rows)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_passing_lack_of_memory_is_no_verdict(name, gpu, folder, monkeypatch, caplog):
    family = FAMILIES[name][0]
    refused = Mock(side_effect=torch.OutOfMemoryError("cuModuleLoadData: out of memory"))
    monkeypatch.setattr(family.KERNELS, "compile", refused)
    forget(family)
    with pytest.raises(torch.OutOfMemoryError):
        family.working(gpu, torch.float16)
    monkeypatch.setattr(family.KERNELS, "compile", partial(compiled, folder, name, ""))
    assert family.working(gpu, torch.float16)
    assert not caplog.records


def forget(family: Any) -> None:
    """Let a family of kernels be tried again."""
    family.KERNELS.cache_clear()


def test_a_job_that_was_begun_without_kernels_goes_on_without_them(
    gpu: Any, folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that was begun with them is refused where they do not work."""
    kernels = token_rows.KERNELS
    about = gpu, torch.float16, 8, kernels.usual(8)
    monkeypatch.setattr(kernels, "compile", partial(compiled, folder, "token_rows", ""))
    forget(token_rows)
    begun = Choices()
    with following(begun):
        assert kernels.load(*about) is not None
    (key,) = begun.known
    with following(Choices({key: "not used"})):
        assert kernels.load(*about) is None
    assert kernels.load(*about) is not None
    monkeypatch.setattr(kernels, "compile", Mock(side_effect=nvrtc.CompileFailed("old driver")))
    forget(token_rows)
    with following(Choices(begun.known)), pytest.raises(ChoiceMissing, match=kernels.title):
        kernels.load(*about)
