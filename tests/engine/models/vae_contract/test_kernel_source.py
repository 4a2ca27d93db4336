"""Whole VAEs by the source of our kernels, compiled for the processor; sums as on a GeForce."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.ops.kernels import build, conv
from engine.ops.kernels.conv import ConvKernel
from engine.ops.kernels.conv_tiles import Program
from engine.settings.optimisations import VaeSwitches
from tests.helpers.kernels import HostModule, stand_in
from tests.helpers.program import compiled_folder
from tests.helpers.tensors import relative_rms
from tests.helpers.vaes import ROWS, clip_of, latent_of

pytestmark = [pytest.mark.extended, pytest.mark.programs("g++")]

ARCH = "-D__CUDA_ARCH__=860"
MOST = 10 ** (-51 / 20)  # error of half sums, in units of the RMS: 51 dB below it


@pytest.mark.skipif(os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX512_CORE", reason="starts it so")
def test_half_sums_where_the_processor_itself_computes_in_float32() -> None:
    """Processors with float16 round other layers, and the plain variant, in another way."""
    words = "-m", "pytest", "-q", "-m", "extended", f"{Path(__file__)}", "-k", "less_than_a_file"
    own = {name: value for name, value in os.environ.items() if name != "PYTEST_XDIST_WORKER"}
    ended = subprocess.run(
        [sys.executable, *words],
        env={**own, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "3 passed" in ended.stdout, ended.stdout


@pytest.mark.skipif(os.environ["ONEDNN_MAX_CPU_ISA"] != "AVX512_CORE", reason="see above")
@pytest.mark.parametrize("name", ["seedvr2", "wan 2.1", "wan 2.2"])
def test_half_sums_lose_less_than_a_file_of_8_bits(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And sums in float32 no more than the plain variant."""

    def compile_for(device: torch.device, program: Program) -> ConvKernel:
        options = *program.options(), ARCH
        return ConvKernel(HostModule(compiled_folder(), build.source("conv"), options), program)

    stand_in(monkeypatch, compiled_folder())
    monkeypatch.setattr(conv, "compile_for", compile_for)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 6))
    conv.cache_clear()
    row = ROWS[name]
    clip, latent = clip_of(row.half, 5, 2, 2), latent_of(row.half, 2, 2, 2)
    plain = row.plain(row.half, dtype=torch.float16)
    truth = row.plain(row.half)
    weights = plain.state_dict()
    truth.load_state_dict({key: value.double() for key, value in weights.items()})
    exact = truth.encode(clip), truth.decode(latent)

    def errors(vae: Any) -> list[float]:
        found = vae.encode(clip.half()), vae.decode(latent.half())
        return [relative_rms(one, right) for one, right in zip(found, exact, strict=True)]

    usual = errors(plain)
    for half_sums in (True, False):
        switches = VaeSwitches(convolution="kernel", fp16_sums=half_sums)
        vae = row.code.loader.fast(row.half, weights, dtype=torch.float16, switches=switches)
        most = [MOST if half_sums else 1.3 * error for error in usual]
        for error, limit in zip(errors(vae), most, strict=True):
            assert error < limit
    conv.cache_clear()
