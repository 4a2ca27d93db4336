"""Memory does not grow with the number of slices, and the helper that says so is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from tests.helpers.memory import Allocations
from tests.helpers.seedvr2 import random_frames, tiny_config, tiny_vae

MIB = 2**20
LENGTHS = (21, 81)


def test_what_is_released_before_the_next_is_taken_counts_once() -> None:
    with Allocations() as found:
        for _ in range(3):
            block = torch.empty(MIB, dtype=torch.uint8)
            del block
    assert (found.peak_bytes, found.left_bytes) == (MIB, 0)


def test_what_is_alive_together_adds_up_and_may_stay() -> None:
    with Allocations() as found:
        kept = torch.empty(2 * MIB, dtype=torch.uint8)
        passing = torch.empty(3 * MIB, dtype=torch.uint8)
        del passing
        more = torch.empty(MIB, dtype=torch.uint8)
    assert (found.peak_bytes, found.left_bytes) == (5 * MIB, 3 * MIB)
    assert kept.nbytes + more.nbytes == found.left_bytes


def test_what_an_operator_takes_for_itself_is_seen() -> None:
    x = torch.zeros(MIB // 4)
    with Allocations() as found:
        x += x + (x + 1)  # two sums of a MiB
    assert found.peak_bytes == 2 * MIB
    assert found.left_bytes == 0


def test_what_was_there_before_does_not_count() -> None:
    x = torch.zeros(MIB // 4)
    with Allocations() as found:
        view = x[1:]
        x.add_(1)
        del x, view
    assert found.peak_bytes < 4096


def beyond_the_result(work: Callable[[], Tensor]) -> int:
    """Peak bytes without those of the result."""
    with torch.no_grad(), Allocations() as found:
        result = work()
    return found.peak_bytes - result.untyped_storage().nbytes()


@pytest.fixture(scope="module")
def plain() -> SeedVr2Vae:
    return tiny_vae(tiny_config(), dtype=torch.float32)


@pytest.fixture(params=["plain", "fast"])
def vae(request: pytest.FixtureRequest, plain: SeedVr2Vae) -> Iterator[SeedVr2Vae | FastVae]:
    form: SeedVr2Vae | FastVae = plain
    if request.param == "fast":
        form = FastVae(plain.config, plain.state_dict())
    form.enable_slicing(4)
    yield form
    form.disable_slicing()


def test_encoding_longer_clips_takes_no_more_memory(vae: SeedVr2Vae | FastVae) -> None:
    clips = [random_frames(1, 3, length, 48, 32, dtype=torch.float32) for length in LENGTHS]
    short, long = (peak_of(vae, lambda clip=clip: vae.posterior(clip)) for clip in clips)
    assert long <= 1.02 * short


def test_decoding_longer_clips_takes_no_more_memory(vae: SeedVr2Vae | FastVae) -> None:
    shapes = [(1, 4, 1 + (length - 1) // 4, 6, 4) for length in LENGTHS]
    latents = [random_frames(*shape, dtype=torch.float32) for shape in shapes]
    short, long = (peak_of(vae, lambda latent=latent: vae.decode(latent)) for latent in latents)
    assert long <= 1.02 * short


def test_without_slices_longer_clips_do_take_more(plain: SeedVr2Vae) -> None:
    fast = FastVae(plain.config, plain.state_dict())
    clips = [torch.zeros(1, 3, length, 48, 32) for length in LENGTHS]
    short, long = (peak_of(fast, lambda clip=clip: fast.posterior(clip)) for clip in clips)
    assert long > 3 * short


def peak_of(vae: SeedVr2Vae | FastVae, work: Callable[[], Tensor]) -> int:
    if isinstance(vae, FastVae):
        vae.release()  # buffers of a longer slice would hide some of it
    return beyond_the_result(work)
