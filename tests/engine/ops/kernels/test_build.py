from __future__ import annotations

import logging

import pytest
import torch

from engine.ops.kernels import nvrtc
from engine.ops.kernels.build import as_factors, checked, is_gpu, pointer, vector_width

WHAT = ("test", torch.device("cuda", 0), torch.float32)


def test_sixteen_bytes_are_read_where_everything_is_aligned() -> None:
    buffer = torch.zeros(3, 4, 64, dtype=torch.float16)
    assert vector_width(buffer) == 8
    assert vector_width(buffer, buffer[:, 1:, 8:].new_zeros(2, 24)) == 8
    assert vector_width(buffer[..., 4:]) == 4
    assert vector_width(buffer[..., :34]) == 2
    assert vector_width(buffer[..., 1:]) == 1
    assert vector_width(buffer, torch.zeros(5, 63, dtype=torch.float16)[:, :62]) == 1
    assert vector_width(buffer.double()[..., :0]) == 0
    assert vector_width(torch.zeros(3, 8)) == 4


def test_no_thread_reads_tensors_of_other_layouts() -> None:
    x = torch.zeros(4, 8)
    assert vector_width(x.t()) == 0
    assert vector_width(x, x.half()) == 0
    assert vector_width(x.double()) == 0
    assert vector_width(x, x.to("meta")) == 0
    assert vector_width(x[:0]) == 0


def test_factors_are_copied_only_where_they_have_to() -> None:
    x = torch.rand(4, 6)
    assert as_factors(x) is x
    assert as_factors(x.t()).is_contiguous()
    assert as_factors(x.half()).dtype == torch.float32
    assert pointer(x).value == x.data_ptr()
    assert pointer(None).value is None


def test_a_processor_is_no_gpu() -> None:
    assert not is_gpu(torch.device("cpu"))


@pytest.mark.parametrize(("error", "works"), [(1e-6, True), (1e-3, False), (float("nan"), False)])
def test_kernels_count_when_their_error_is_rounding(
    error: float, works: bool, caplog: pytest.LogCaptureFixture
) -> None:
    assert checked(WHAT, lambda: "kernels", lambda _: error) == ("kernels" if works else None)
    assert len(caplog.records) == (not works)


def test_what_does_not_compile_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> str:
        raise nvrtc.NvrtcMissing("no library here")

    with caplog.at_level(logging.WARNING):
        assert checked(WHAT, fail, lambda _: 0.0) is None
    assert "no test kernel" in caplog.text
    assert "no library here" in caplog.text
