"""Wan 2x over shots: any slices, any beginning, any size of picture, the same film."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.core.errors import WeightsMissing, WrongModel
from engine.core.geometry import Size
from engine.models.upscalers import DecodedTile, Restored
from engine.models.video_vae.slicing import slices
from engine.models.wan.plan import WanPlan
from engine.models.wan.upscaler import WanUpscaler, load_wan_upscaler, resumption
from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.receptive_field import decoder_reach, encoder_reach
from engine.protocol.plan import WeightsPlan
from tests.helpers.extended import extended
from tests.helpers.memory import Allocations, planned_file
from tests.helpers.seedvr2 import random_frames
from tests.helpers.wan import tiny_wan, tiny_wan_config, write_wan

EXACT = 1e-10


@cache
def vae() -> FastWanVae:
    plain = tiny_wan(tiny_wan_config("2x", residual_blocks=1, dim=4, dec_dim=4))
    return FastWanVae(plain.config, plain.state_dict(), dtype=torch.float64)


def plan_of(size: Size, weights: Path = Path("vae.safetensors"), **changes: Any) -> WanPlan:
    padded = Size(-(-size.width // 8) * 8, -(-size.height // 8) * 8)
    file = planned_file(weights) if weights.exists() else WeightsPlan(path=weights)
    return WanPlan(vae=file, size=size, padded=padded, **changes)


def model_of(size: Size, **changes: Any) -> WanUpscaler:
    return WanUpscaler(plan_of(size, **changes), vae())


def pictures(count: int, size: Size) -> Tensor:
    """Frames of a source, in [0, 1]."""
    return random_frames(count, 3, size.height, size.width).add(1).mul(0.5)


def through(
    model: WanUpscaler,
    source: Tensor,
    *,
    shot: int = 0,
    wanted: int = 0,
    reported: list[DecodedTile] | None = None,
) -> list[Restored]:
    """A shot that begins at frame `shot` of a film and is wanted from frame `wanted` on."""
    watch = (lambda _: None) if reported is None else reported.append
    begin = model.first_needed(shot, wanted) - shot
    running = model.shot(shot, wanted, watch)
    rest = source[begin:]
    found: list[Restored] = []
    for a, b in slices(len(rest), model.slice_frames):
        found += running.push(rest[a:b], last=b == len(rest))
    return found


def whole(parts: list[Restored]) -> Tensor:
    for before, part in pairwise(parts):
        assert part.first == before.first + len(before.frames)
    return torch.cat([part.frames for part in parts])


def film(model: WanUpscaler, source: Tensor) -> Tensor:
    """Finished pictures of a shot."""
    return model.finished(whole(through(model, source)), source)


def assert_same(found: Tensor, right: Tensor) -> None:
    assert found.shape == right.shape
    assert float((found - right).abs().max()) <= EXACT


def test_every_frame_comes_out_once_and_twice_as_large() -> None:
    size = Size(14, 10)
    for slice_frames in (4, 12):
        model = model_of(size, clip_frames=slice_frames)
        assert model.canvas == Size(28, 20)
        for count in (1, 2, 4, 5, 13, 16, 17):
            source = pictures(count, size)
            found = through(model, source)
            assert found[0].first == 0
            result = model.finished(whole(found), source)
            assert result.shape == (count, 3, 20, 28)
            assert float(result.std()) > 0.05


def test_a_shot_in_pieces_is_the_shot_at_once() -> None:
    size = Size(16, 8)
    for count in (5, 15):
        source = pictures(count, size)
        at_once = film(model_of(size, clip_frames=40), source)
        assert_same(film(model_of(size, clip_frames=8), source), at_once)
    clip = (source[:13] * 2 - 1).movedim(0, 1)[None]
    direct = vae().decode(vae().encode(clip))[0].movedim(0, 1)
    assert_same(at_once[:13], direct.add(1).mul(0.5).clamp(0, 1))


TILES = {"encode_tile": Size(52, 52), "decode_tile": Size(136, 136)}


@cache
def untiled() -> tuple[Size, Tensor, Tensor]:
    """A size of frames, a source, and its film in whole frames."""
    size = Size(78, 75)
    source = pictures(10, size)
    return size, source, film(model_of(size), source)


@pytest.mark.parametrize(
    "tiles",
    [
        {**TILES, "warm_up": 30, "clip_frames": 8},
        *extended(TILES, {"encode_tile": Size(60, 999)}, {"decode_tile": Size(999, 136)}),
    ],
)
def test_tiles_leave_no_trace(tiles: dict[str, Any]) -> None:
    size, source, right = untiled()
    assert_same(film(model_of(size, **tiles), source), right)


def test_tiles_are_reported_with_numbers_of_the_job() -> None:
    size = Size(78, 70)
    for tiles in ({}, {**TILES, "clip_frames": 4}):
        model, reported = model_of(size, **tiles), list[DecodedTile]()
        found = through(model, pictures(9, size), shot=100, wanted=100, reported=reported)
        assert found[0].first == 100
        assert reported[-1].frame == 108
        assert {one.index for one in reported} == set(range(reported[0].tiles))
        assert (reported[0].tiles > 1) == bool(tiles)
        covered = sum(one.box.size.pixels for one in reported if one.frame == 108)
        assert covered == 160 * 144


LENGTH = 4 * (encoder_reach(vae().config) + decoder_reach(vae().config) + 9) - 1


@cache
def long() -> tuple[Tensor, Tensor]:
    """A source, and its film."""
    source = pictures(LENGTH, Size(8, 8))
    return source, whole(through(model_of(Size(8, 8)), source))


@pytest.mark.parametrize(
    ("wanted", "slice_frames"),
    [(LENGTH - 30, 16), (LENGTH - 1, 4), *extended((1, 4), (4, 8), (90, 4))],
)
def test_beginning_again_gives_the_same_film(wanted: int, slice_frames: int) -> None:
    source, right = long()
    model = model_of(Size(8, 8), clip_frames=slice_frames)
    found = through(model, source, shot=7, wanted=7 + wanted)
    assert 7 + wanted - 4 < found[0].first <= 7 + wanted
    assert_same(whole(found), right[found[0].first - 7 :])


def test_a_late_beginning_reads_no_more_than_needed() -> None:
    config = vae().config
    at = resumption(config, LENGTH - 1)
    assert at.wanted - at.decode_from == decoder_reach(config)
    assert at.decode_from - at.encode_from == encoder_reach(config)
    assert model_of(Size(8, 8)).first_needed(10, 10 + LENGTH - 1) == 10 + 4 * at.encode_from > 10
    assert model_of(Size(8, 8)).first_needed(10, 10) == 10


def test_pictures_of_any_size_are_mirrored_at_the_edges() -> None:
    for size in (Size(1, 1), Size(3, 9), Size(17, 2)):
        source = pictures(3, size)
        placed = model_of(size).placed(source)
        assert placed.shape[-2] % 8 == placed.shape[-1] % 8 == 0
        assert film(model_of(size), source).shape == (3, 3, 2 * size.height, 2 * size.width)
    source = pictures(2, Size(13, 6))
    placed = model_of(Size(13, 6)).placed(source)
    assert_same(placed[..., :6, :13], source * 2 - 1)
    assert_same(placed[..., 6:, :], placed[..., [4, 3], :])
    assert_same(placed[..., 13:], placed[..., [11, 10, 9]])


def test_the_model_sees_nothing_beyond_black_and_white() -> None:
    source = torch.tensor([-0.2, 0.3, 1.4]).view(1, 3, 1, 1).expand(1, 3, 8, 8)
    placed = model_of(Size(8, 8)).placed(source)
    torch.testing.assert_close(placed[0, :, 0, 0], torch.tensor([-1.0, -0.4, 1.0]))


def test_what_a_source_has_beyond_black_and_white_is_put_back() -> None:
    model = model_of(Size(8, 8))
    frames = random_frames(1, 3, 16, 16) * 1.5
    right = frames.add(1).mul(0.5).clamp(0, 1)
    inside = pictures(1, Size(8, 8))
    assert torch.equal(model.finished(frames, inside), right)
    beyond = torch.full((1, 3, 8, 8), 1.25, dtype=torch.float64)
    assert_same(model.finished(frames, beyond), right + 0.25)
    assert_same(model.finished(frames, -beyond), right - 1.25)


def test_work_can_be_stopped_between_slices() -> None:
    def stop(stage: str, frames: float) -> None:
        raise InterruptedError

    model = model_of(Size(8, 8))
    model.report_to(stop)
    with pytest.raises(InterruptedError):
        through(model, pictures(3, Size(8, 8)))
    model.close()


@pytest.mark.parametrize(("tiles", "lengths"), [({}, (21, 45)), *extended((TILES, (101, 133)))])
def test_longer_shots_take_no_more_memory(tiles: dict[str, Any], lengths: tuple[int, int]) -> None:
    """With tiles from the third visit on, which meets all that visits leave to each other."""
    model = model_of(Size(80 if tiles else 16, 8), **tiles)
    short, long = (peak_bytes(model, length) for length in lengths)
    assert long <= 1.02 * short


def peak_bytes(model: WanUpscaler, length: int) -> int:
    """The most that is held at once while results are thrown away."""
    model.close()  # buffers are allocated again
    canvas = model.canvas
    piece = pictures(5, Size(canvas.width // 2, canvas.height // 2))
    with torch.inference_mode(), Allocations() as found:
        running = model.shot(0, 0, lambda _: None)
        for a, b in slices(length, 4):
            for _part in running.push(piece[: b - a], last=b == length):
                pass
    return found.peak_bytes


def test_loaded_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "vae.safetensors"
    plain = write_wan(path, tiny_wan_config("2x"))
    size = Size(16, 8)
    model = load_wan_upscaler(plan_of(size, path))
    source = pictures(5, size).float()
    clip = (source.double() * 2 - 1).movedim(0, 1)[None]
    right = plain.decode(plain.encode(clip))[0].movedim(0, 1).add(1).mul(0.5).clamp(0, 1)
    found = film(model, source)
    assert found.dtype == torch.float32
    assert float((found - right).abs().max()) <= 1e-4
    model.close()


def test_files_that_do_not_enlarge_or_are_gone_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "vae.safetensors"
    with pytest.raises(WeightsMissing):
        load_wan_upscaler(plan_of(Size(16, 16), path))
    write_wan(path, tiny_wan_config("2.1"))
    with pytest.raises(WrongModel, match=r"is a Wan 2\.1 VAE, not a Wan 2x VAE"):
        load_wan_upscaler(plan_of(Size(16, 16), path))
