"""Two tiles at once on the pretended GPU: the same bits, no race, nothing left behind."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.core.errors import Cancelled
from engine.core.geometry import Size
from engine.models.seedvr2.vae.decode_stream import SeedVr2DecodeStream
from engine.models.seedvr2.vae.encode_stream import SeedVr2EncodeStream
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.tiling import Tiling
from engine.models.upscalers import Advance, no_advance
from engine.models.video_vae.slicing import slices
from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.split import decode_cut, encode_cut, least_tile
from engine.models.wan.vae.streams import Streaming, WanDecodeStream, WanEncodeStream
from engine.ops.lanes import Lanes
from engine.ops.transfer.parking import Parking
from engine.settings.optimisations import VaeSwitches
from tests.helpers.memory import RunsOut
from tests.helpers.seedvr2 import random_frames, tiny_vae
from tests.helpers.wan import tiny_wan, tiny_wan_config
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = pytest.mark.pretended_gpu

SWITCHES = VaeSwitches(convolution="3d")
FRAME, HIGH = Size(160, 16), Size(232, 16)
WAN_FRAME = Size(80, 8)
TILES = {"tile": Size(112, 112), "span": 2}
WARM = {**TILES, "warm_up": 1}
WHOLE = {"tile": Size(208, 208), "span": 2, "is_whole": True}


@cache
def weights(family: str) -> tuple[Any, dict[str, Tensor]]:
    """Configuration and tensors of a very small VAE."""
    if family == "seedvr2":
        plain: Any = tiny_vae(dtype=torch.float32)
    else:
        plain = tiny_wan(tiny_wan_config("2x", residual_blocks=1, dim=4, dec_dim=4))
    return plain.config, {name: x.float() for name, x in plain.state_dict().items()}


def seedvr2_encoded(at_once: int, frame: Size, **tiling: Any) -> Tensor:
    vae = FastVae(*weights("seedvr2"), device="cuda", switches=SWITCHES)
    parking = Parking(10**9)
    stream = SeedVr2EncodeStream(vae, frame, Tiling(**tiling, at_once=at_once), parking)
    frames = random_frames(9, 3, frame.height, frame.width, dtype=torch.float32)
    parts = [stream.push(frames[a:b].to("cuda"), last=b == 9) for a, b in slices(9, 4)]
    parking.release()
    return torch.cat(parts)


def seedvr2_decoded(
    at_once: int, frame: Size, advance: Advance = no_advance, **tiling: Any
) -> Tensor:
    vae = FastVae(*weights("seedvr2"), device="cuda", switches=SWITCHES)
    parking = Parking(10**9)
    seen: list[float] = []
    stream = SeedVr2DecodeStream(
        vae,
        frame,
        Tiling(**tiling, blend=8, at_once=at_once),
        lambda tile: seen.append(float(tile.picture.sum())),
        parking,
        advance=advance,
    )
    channels = vae.config.latent_channels
    latents = random_frames(3, frame.height // 8, frame.width // 8, channels, dtype=torch.float32)
    made = [
        frames.cpu()
        for a, b in slices(3, 1)
        for frames in stream.push(latents[a:b].to("cuda"), last=b == 3)
    ]
    parking.release()
    return torch.cat([*(part.flatten() for part in made), torch.tensor(seen)])


def wan(at_once: int, frame: Size, **options: Any) -> Tensor:
    vae = FastWanVae(*weights("wan"), device="cuda", switches=SWITCHES)
    parking, parts = Parking(10**9), list[Tensor]()
    cut = encode_cut(vae.config)
    tile = Size(least_tile(cut) + 1, 99).scaled(cut.factor)
    about = {**options, "at_once": at_once, "parking": parking}
    encode = WanEncodeStream(vae, frame, Streaming(tile=tile, **about))
    frames = random_frames(33, 3, frame.height, frame.width, dtype=torch.float32)
    latents = [encode.push(frames[a:b].to("cuda"), last=b == 33) for a, b in slices(33, 4)]
    cut = decode_cut(vae.config)
    tile = Size(least_tile(cut) + 1, 99).scaled(cut.factor * vae.config.upscale)
    decode = WanDecodeStream(vae, frame, Streaming(tile=tile, **about))
    whole = torch.cat(latents, dim=2)
    for a, b in slices(9, 4):
        parts += [frames.cpu() for frames in decode.push(whole[:, :, a:b], last=b == 9)]
    parking.release()
    return torch.cat([whole.cpu().flatten(), torch.cat(parts).flatten()])


Run = Callable[..., Tensor]
CASES: dict[str, tuple[Run, Size, dict[str, Any]]] = {
    "seedvr2-encode": (seedvr2_encoded, FRAME, TILES),
    "seedvr2-decode": (seedvr2_decoded, FRAME, TILES),
    "wan": (wan, WAN_FRAME, {"parks": True}),
    "seedvr2-encode-warm": (seedvr2_encoded, FRAME, WARM),
    "seedvr2-decode-warm": (seedvr2_decoded, FRAME, WARM),
    "seedvr2-whole-tiles": (seedvr2_decoded, HIGH, WHOLE),
    "wan-warm": (wan, WAN_FRAME, {"warm_up": 2}),
}
USUAL = ("seedvr2-encode", "seedvr2-decode", "wan")
ALL = [name if name in USUAL else pytest.param(name, marks=pytest.mark.slow) for name in CASES]


def made(name: str, at_once: int) -> tuple[Tensor, Any]:
    """What a case gives, and the GPU that it was made on."""
    run, frame, about = CASES[name]
    with pretended_gpu() as gpu, torch.inference_mode():
        found = run(at_once, frame, **about)
        gc.collect()
    return found, gpu


@pytest.mark.parametrize("name", ALL)
def test_two_at_once_give_the_bits_of_one_after_the_other(name: str) -> None:
    (wanted, one), (found, both) = (made(name, at_once) for at_once in (1, 2))
    assert torch.equal(found, wanted)
    assert not both.record.problems
    assert both.allocator.allocated == 0
    assert len(both.streams) == len(one.streams) + 2
    assert both.record.launches == one.record.launches


def two_lanes() -> None:
    """Pieces that use what the caller made, and give what it uses."""
    device = torch.device("cuda")
    given, total = torch.ones(2, 4, device=device)

    def piece(_lane: int) -> Generator[None, None, Tensor]:
        part = given * 2
        yield
        return part + 1

    for part in Lanes(device, 2).run([piece] * 3):
        total += part
        del part


@pytest.mark.parametrize("missing", ["", "_fork", "_join"])
def test_a_missing_wait_is_a_race(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing:
        monkeypatch.setattr(Lanes, missing, lambda _: None)
    with pretended_gpu() as gpu:
        two_lanes()
        gc.collect()
    assert bool(gpu.record.problems) == bool(missing)
    assert gpu.allocator.allocated == 0


def test_a_decoder_that_does_not_wait_for_its_tiles_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Lanes, "_join", lambda _: None)
    _, gpu = made("seedvr2-decode", 2)
    assert any("the default stream reads" in text for text, _ in gpu.record.problems)


def test_a_cancelled_tile_leaves_nothing_behind() -> None:
    passed: list[float] = []

    def advance(_stage: str, frames: float) -> None:
        passed.append(frames)
        if len(passed) == 3:
            raise Cancelled

    with pretended_gpu() as gpu, torch.inference_mode():
        with pytest.raises(Cancelled):
            seedvr2_decoded(2, FRAME, advance, **TILES)
        gc.collect()
        after = seedvr2_decoded(2, FRAME, **TILES)
        gc.collect()
    assert not gpu.record.problems
    assert gpu.allocator.allocated == 0
    assert torch.equal(after, made("seedvr2-decode", 1)[0])


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_no_memory_in_the_middle_leaves_nothing_behind(share: float) -> None:
    with pretended_gpu() as gpu, torch.inference_mode():
        with RunsOut() as all_of_them:
            wanted = seedvr2_decoded(2, FRAME, **TILES)
        with RunsOut(round(share * all_of_them.count)), pytest.raises(torch.OutOfMemoryError):
            seedvr2_decoded(2, FRAME, **TILES)
        gc.collect()
        found = seedvr2_decoded(1, FRAME, **TILES)
        gc.collect()
    assert not gpu.record.problems
    assert gpu.allocator.allocated == 0
    assert torch.equal(found, wanted)
