"""A shot in one pass: no seams, the same result wherever it begins again."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.core.geometry import Size
from engine.models.seedvr2.shot import ClippedShot, LatentJoin, Shot, ShotOptions
from engine.models.seedvr2.vae.config import VAE
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.load import Vae
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from engine.models.seedvr2.vae.tiling import (
    Tiling,
    decoder_lookback,
    decoder_reach,
    encoder_lookback,
    encoder_reach,
)
from engine.models.upscalers import DecodedTile, Restored
from engine.models.video_vae.slicing import slices
from engine.tiling.latent_clips import (
    FROM_START,
    ClipGrid,
    LatentClip,
    Lookback,
    Restart,
    latent_of,
)
from tests.helpers.extended import extended
from tests.helpers.seedvr2 import random_frames, tiny_vae
from tests.helpers.vaes import ROWS

FRAME = Size(8, 8)


VERY_SMALL = ROWS["seedvr2"].streamed


@cache
def plain_vae() -> SeedVr2Vae:
    return tiny_vae(VERY_SMALL, dtype=torch.float32)


@cache
def fast_vae() -> FastVae:
    return FastVae(VERY_SMALL, plain_vae().state_dict(), dtype=torch.float32)


def unchanged(latents: Tensor, first: int) -> Tensor:
    """A transformer that returns its condition."""
    return latents


def by_place(latents: Tensor, first: int) -> Tensor:
    """A transformer whose result depends on the latent and on all the clip."""
    return 0.5 * latents + 0.1 * latents.mean() + 0.01 * first


def through(
    shot: Shot | ClippedShot, frames: Tensor, size: int = 4, *, begin: int = 0
) -> list[Restored]:
    """All frames from the one on that the shot begins with, in slices as a film gives them."""
    rest = frames[begin:]
    found: list[Restored] = []
    for start, end in slices(len(rest), size):
        found += shot.push(rest[start:end], last=end == len(rest))
    return found


def whole(parts: list[Restored]) -> Tensor:
    for before, part in pairwise(parts):
        assert part.first == before.first + len(before.frames)
    return torch.cat([part.frames for part in parts])


def shot_of(vae: Vae, restore: Any = unchanged, *, clip: int = 5, **options: Any) -> Shot:
    restart = options.pop("restart", FROM_START)
    about = ShotOptions(frame=FRAME, grid=ClipGrid(clip, min(2, (clip - 1) // 2)), **options)
    return Shot(vae, restore, about, lambda tile: None, restart)


def test_every_frame_comes_out_once_as_in_a_single_pass() -> None:
    vae = plain_vae()
    for count in (1, 2, 5, 9, 14, 16, 21, 30):
        frames = random_frames(count, 3, 8, 8, dtype=torch.float32)
        vae.disable_slicing()
        found = through(shot_of(vae), frames)
        joined, at_once = whole(found), whole(through(shot_of(vae, clip=40), frames))
        assert found[0].first == 0
        assert joined.shape == frames.shape
        torch.testing.assert_close(joined, at_once, rtol=0, atol=1e-5)
        if (count - 1) % 4 == 0:
            vae.enable_slicing()
            clip = frames.movedim(0, 1).unsqueeze(0)
            direct = vae.decode(vae.encode(clip))[0].movedim(0, 1)
            torch.testing.assert_close(joined, direct, rtol=0, atol=1e-5)


@cache
def of_clips(clip: int) -> tuple[Tensor, list[Restored]]:
    """Frames, and what a shot in clips of this length makes of them."""
    frames = random_frames(78, 3, 8, 8, dtype=torch.float32)
    return frames, through(shot_of(fast_vae(), by_place, clip=clip), frames)


@pytest.mark.parametrize(
    ("wanted", "clip"), [(40, 7), *extended((1, 2), (17, 4), (61, 2), (75, 4))]
)
def test_beginning_again_gives_the_same_bits(wanted: int, clip: int) -> None:
    vae = fast_vae()
    frames, uninterrupted = of_clips(clip)
    restart = ClipGrid(clip, min(2, (clip - 1) // 2)).restart(
        -(-wanted // 4),
        encoder=encoder_lookback(vae.config, None),
        decoder=decoder_lookback(vae.config, None),
    )
    again = shot_of(vae, by_place, clip=clip, restart=restart)
    found = through(again, frames, begin=again.first)
    assert found[0].first <= wanted
    assert torch.equal(whole(found), whole(uninterrupted)[found[0].first :])
    ends = {part.first + len(part.frames) for part in uninterrupted if part.ends_block}
    assert {part.first + len(part.frames) for part in found if part.ends_block} <= ends


def test_the_decoder_looks_back_so_far_and_no_less() -> None:
    assert (encoder_reach(VAE), decoder_reach(VAE)) == (28, 37)
    plain = tiny_vae(dtype=torch.float32)  # with residual blocks in all levels
    vae = FastVae(plain.config, plain.state_dict())
    frames = random_frames(121, 3, 8, 8, dtype=torch.float32)
    uninterrupted = whole(through(shot_of(vae), frames))
    before, back = encoder_reach(vae.config), decoder_reach(vae.config)
    for less in (0, 1):
        restart = ClipGrid(5, 2).restart(
            30, encoder=Lookback(before), decoder=Lookback(back - less)
        )
        assert restart.decode_from > 0
        again = shot_of(vae, restart=restart)
        found = through(again, frames, begin=again.first)
        same = torch.equal(whole(found), uninterrupted[found[0].first :])
        assert same == (less == 0)


TILED = Size(160, 8)  # lower than its tiles: three next to each other


def in_tiles(vae: Vae, frames: Tensor, tiles: list[DecodedTile], **tiling: Any) -> Tensor:
    options = ShotOptions(
        frame=TILED,
        grid=ClipGrid(5, 1),
        encode=tiling.pop("encode", None),
        decode=Tiling(blend=8, span=4, **tiling) if tiling else None,
    )
    return whole(through(Shot(vae, unchanged, options, tiles.append), frames))


def test_tiles_are_reported_and_go_on_where_they_stopped() -> None:
    vae = fast_vae()
    frames = random_frames(25, 3, 8, 160, dtype=torch.float32)
    tiles: list[DecodedTile] = []
    tiled = in_tiles(vae, frames, tiles, tile=Size(80, 80))
    assert {tile.tiles for tile in tiles} == {3}
    assert [(tile.index, tile.frame) for tile in tiles[:4]] == [(0, 12), (1, 12), (2, 12), (0, 24)]
    right = in_tiles(vae, frames, [])
    assert tiled.shape == right.shape
    assert float((tiled - right.clamp(-1, 1)).abs().mean()) < 0.2
    some, tile = frames[:6], Size(80, 80)
    encoded = in_tiles(vae, some, [], encode=Tiling(tile=tile)) - in_tiles(vae, some, [])
    assert 0 < float(encoded.abs().mean()) < 0.3


def spans(*, warm_up: int = 0, encode: int = 8, decode: int = 8) -> dict[str, Tiling]:
    tiles = {"tile": Size(80, 80), "blend": 8, "warm_up": warm_up}
    return {"encode": Tiling(**tiles, span=encode), "decode": Tiling(**tiles, span=decode)}


def tiled_shot(restart: Restart, tilings: dict[str, Tiling]) -> Shot:
    options = ShotOptions(frame=TILED, grid=ClipGrid(5, 1), **tilings)
    return Shot(fast_vae(), by_place, options, lambda tile: None, restart)


@pytest.mark.extended
def test_tiles_that_go_on_give_the_same_in_spans_of_any_length() -> None:
    frames = random_frames(49, 3, 8, 160, dtype=torch.float32)
    every, once = (
        through(tiled_shot(FROM_START, spans(encode=length, decode=length)), frames)
        for length in (3, 99)
    )
    torch.testing.assert_close(whole(every), whole(once), rtol=0, atol=1e-4)
    ends = [part.first + len(part.frames) for part in once if part.ends_block]
    assert ends == [13, 29, 45, 49]


def test_each_slice_of_a_tile_is_counted() -> None:
    passed: Counter[str] = Counter()

    def advance(stage: str, frames: float) -> None:
        passed[stage] += round(frames * 6)
        if sum(passed.values()) > limit:
            raise InterruptedError

    frames = random_frames(21, 3, 8, 160, dtype=torch.float32)
    for tilings, tiles in ((spans(decode=99), 3), ({}, 1)):
        options = ShotOptions(frame=TILED, grid=ClipGrid(5, 1), **tilings)
        for limit in (6 * 99, 6 * 30):
            passed.clear()
            shot = Shot(fast_vae(), by_place, options, lambda tile: None, advance=advance)
            with nullcontext() if limit > 6 * 42 else pytest.raises(InterruptedError):
                through(shot, frames)
            if limit > 6 * 42:
                assert passed == {"encode": 6 * 21, "decode": 6 * 21}, tiles


@pytest.mark.parametrize(
    ("count", "wanted", "encode", "decode"),
    [(45, 37, 3, 4), *extended((61, 53, 3, 4), (61, 41, 5, 7), (61, 17, 99, 99))],
)
def test_tiles_begin_early_at_the_same_latents_wherever_a_job_is_continued(
    count: int, wanted: int, encode: int, decode: int
) -> None:
    tilings = spans(warm_up=2, encode=encode, decode=decode)
    frames = random_frames(count, 3, 8, 160, dtype=torch.float32)
    uninterrupted = through(tiled_shot(FROM_START, tilings), frames)
    config = fast_vae().config
    restart = ClipGrid(5, 1).restart(
        -(-wanted // 4),
        encoder=encoder_lookback(config, tilings["encode"]),
        decoder=decoder_lookback(config, tilings["decode"]),
    )
    again = tiled_shot(restart, tilings)
    found = through(again, frames, begin=again.first)
    assert found[0].first <= wanted
    assert torch.equal(whole(found), whole(uninterrupted)[found[0].first :])


def until(tiled: str, stop: int | None, restore: Any) -> tuple[Shot, Tensor]:
    """A shot that ends with its first `stop` frames, and frames for it."""
    tilings = spans(warm_up=2 * (tiled == "warmed up"), encode=99, decode=99) if tiled else {}
    frame = TILED if tiled else FRAME
    options = ShotOptions(frame=frame, grid=ClipGrid(5, 1), **tilings)
    frames = random_frames(61, 3, frame.height, frame.width, dtype=torch.float32)
    return Shot(fast_vae(), restore, options, lambda tile: None, stop=stop), frames


@cache
def without_end(tiled: str) -> Tensor:
    """All frames of such a shot."""
    return whole(through(*until(tiled, None, by_place)))


STOPS = [("", 1), ("", 2), ("", 17), ("", 18), ("", 60), ("", 61), ("carried", 18)]
MORE = [("", 30), *((tiled, n) for tiled in ("carried", "warmed up") for n in (1, 2, 17, 30, 61))]
MORE += [("carried", 60), ("warmed up", 18), ("warmed up", 60)]


@pytest.mark.parametrize(("tiled", "stop"), [*STOPS, *extended(*MORE)])
def test_what_only_later_frames_need_is_not_computed(tiled: str, stop: int) -> None:
    restored: list[int] = []

    def restore(latents: Tensor, first: int) -> Tensor:
        restored.append(first)
        return by_place(latents, first)

    shot, frames = until(tiled, stop, restore)
    grid, uninterrupted = ClipGrid(5, 1), without_end(tiled)
    made, fed = list[Restored](), 0
    for begin, fed in slices(len(frames), 4):
        made += shot.push(frames[begin:fed], last=fed == len(frames))
        if made and made[-1].first + len(made[-1].frames) >= stop:
            break
    found = whole(made)
    assert len(found) >= stop
    assert torch.equal(found, uninterrupted[: len(found)])
    clips = 1 + latent_of(stop - 1, 4) // grid.step
    assert len(restored) == min(clips, 4)
    assert fed <= 1 + 4 * (clips * grid.step + grid.shared)


def test_the_last_clip_is_that_of_the_frame_before_the_stop() -> None:
    """Latents of a frame, then of four; clips begin every 4 latents: at frames 0, 13, 29, 45."""
    last = {None: None, 1: 0, 2: 0, 13: 0, 14: 1, 29: 1, 30: 2, 45: 2, 46: 3}
    vae, options = fast_vae(), ShotOptions(frame=FRAME, grid=ClipGrid(5, 1))
    shots = {n: Shot(vae, unchanged, options, lambda tile: None, stop=n) for n in last}
    assert {n: shot._last_clip for n, shot in shots.items()} == last


def test_clips_by_themselves() -> None:
    vae = plain_vae()
    for shared in (0, 3):
        options = ShotOptions(frame=FRAME, grid=ClipGrid(9, shared))
        for count in (1, 9, 10, 23):
            frames = random_frames(count, 3, 8, 8, dtype=torch.float32)
            shot = ClippedShot(vae, unchanged, options, lambda tile: None)
            right = whole(through(shot, frames))
            assert right.shape == frames.shape
            later = ClippedShot(vae, unchanged, options, lambda tile: None, frame=count // 2)
            again = whole(through(later, frames, begin=later.first))
            assert torch.equal(again[count // 2 - later.first :], right[count // 2 :])


def test_shared_latents_fade_from_one_clip_to_the_next() -> None:
    join = LatentJoin(2)
    first = join.add(LatentClip(0, 5, 0, 3), torch.zeros(5, 1, 1, 1))
    second = join.add(LatentClip(3, 8, 5, 8), torch.ones(5, 1, 1, 1))
    assert first[0] == 0
    assert len(first[1]) == 3
    assert second[0] == 3
    torch.testing.assert_close(second[1].flatten(), torch.tensor([0.25, 0.75, 1.0, 1.0, 1.0]))
