"""The network: base, tiles, loading."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import save_file

from engine.core.errors import Cancelled, UnknownKeys, WeightsMissing
from engine.core.geometry import Size
from engine.models.lite import files
from engine.models.lite import net as lite_net
from engine.models.lite.family import FAMILY
from engine.models.lite.files import LiteConfig
from engine.models.lite.net import LiteNet, load_lite
from engine.models.lite.plan import LitePlan
from tools.training.generated.scenes import Surfaces, random_picture

PATHS = [files.weights_path(file.name) for file in files.FILES]


EACH = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.inference_mode():
        yield


def small_net(scale: int = 2) -> LiteNet:
    torch.manual_seed(3)
    return LiteNet(LiteConfig(scale=scale, channels=8, layers=2))


def without_residual(scale: int) -> LiteNet:
    net = small_net(scale)
    for parameter in net.parameters():
        torch.nn.init.zeros_(parameter)
    return net


@pytest.mark.parametrize("scale", [2, 4])
def test_base_equals_pillow_bicubic(scale: int) -> None:
    picture = np.random.default_rng(1).random((17, 23), dtype=np.float32)
    size = (23 * scale, 17 * scale)
    wanted = np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BICUBIC))
    frames = torch.from_numpy(picture).expand(1, 3, 17, 23)
    result = without_residual(scale)(frames)[0, 1].numpy()
    inner = slice(3 * scale, -3 * scale)  # Pillow treats the border itself differently
    np.testing.assert_allclose(result[inner, inner], wanted[inner, inner], atol=1e-5)
    edge = F.pad(frames, (2,) * 4, mode="replicate")
    base = F.interpolate(edge, scale_factor=scale, mode="bicubic", antialias=True)
    cut = 2 * scale
    expected = base[0, 1, cut:-cut, cut:-cut].numpy()
    np.testing.assert_allclose(result, expected, atol=1e-5)


@pytest.mark.parametrize("scale", [2, 4])
def test_result_is_scale_times_as_large(scale: int) -> None:
    for height, width in ((1, 1), (1, 9), (14, 11)):
        result = small_net(scale)(torch.rand(2, 3, height, width))
        assert result.shape == (2, 3, height * scale, width * scale)
        assert result.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [2, 4])
def test_shorter_way_without_gradients_changes_no_bit(scale: int, dtype: torch.dtype) -> None:
    with torch.inference_mode(False):
        net, frames = small_net(scale).to(dtype), torch.rand(2, 3, 9, 14)
        with torch.enable_grad():
            plain = net(frames).detach()
    assert torch.equal(net(frames), plain)


def test_frames_without_neighbours_are_seen_as_if_those_were_alike() -> None:
    torch.manual_seed(4)
    net = LiteNet(LiteConfig(scale=2, channels=8, layers=1, frames=3))
    frames, other = torch.rand(2, 2, 3, 9, 12)
    assert torch.equal(net(frames), net(frames, frames, frames))
    assert torch.equal(net(frames, None, other), net(frames, frames, other))
    assert not torch.equal(net(frames, other, None), net(frames, None, other))


def tile_error(net: LiteNet, halo: int) -> float:
    """Largest difference between a tile with so many pixels around it and the whole frame."""
    r, s = halo, net.config.scale
    frames = torch.rand(1, 3, 22 + 2 * r, 26 + 2 * r)
    tile = net(frames[:, :, 4 : 18 + 2 * r, 3 : 21 + 2 * r])
    inside = tile[:, :, r * s : -r * s, r * s : -r * s]
    wanted = net(frames)[:, :, (4 + r) * s : (18 + r) * s, (3 + r) * s : (21 + r) * s]
    return float((inside - wanted).abs().max())


@EACH
def test_tiles_with_halo_equal_the_whole_frame(path: Path) -> None:
    net = load_lite(path)
    assert tile_error(net, net.receptive_radius) < 1e-5
    if path == PATHS[0]:
        assert tile_error(net, net.receptive_radius - 1) > 1e-5


@EACH
def test_flat_colour_stays_flat(path: Path) -> None:
    net = load_lite(path)
    for colour in ((0, 0, 0), (1, 1, 1), (0.2, 0.5, 0.8), (0.5, 0.5, 0.5)):
        frames = torch.tensor(colour, dtype=torch.float32).view(1, 3, 1, 1).expand(1, 3, 20, 20)
        error = net(frames) - frames[:, :, :1, :1]
        assert float(error.abs().max()) < 1 / 255, colour


@cache
def generated_pictures() -> list[Image.Image]:
    rng = np.random.default_rng(77)
    surfaces = Surfaces(rng, count=4, size=256)
    return [Image.fromarray(random_picture(rng, surfaces, 96)) for _ in range(6)]


@EACH
def test_shipped_weights_beat_bicubic_on_a_generated_picture(path: Path) -> None:
    net = load_lite(path)
    scale, gains = net.config.scale, []
    for picture in generated_pictures():
        small = picture.resize((96 // scale,) * 2, Image.Resampling.BICUBIC)
        frames, wanted = (
            torch.from_numpy(np.array(p)).permute(2, 0, 1)[None].float() / 255
            for p in (small, picture)
        )
        errors = [
            (model(frames) - wanted).square().mean().item()
            for model in (net, without_residual(scale))
        ]
        gains.append(errors[1] / errors[0])
    assert np.median(gains) > 1.02


def test_a_call_can_be_stopped_after_each_hidden_layer() -> None:
    net, calls = small_net(), list[int]()

    def between() -> None:
        calls.append(1)
        if len(calls) == 5:
            raise Cancelled

    net.between = between
    net(torch.rand(1, 3, 8, 8))
    assert len(calls) == net.config.layers + 1
    with pytest.raises(Cancelled):
        net(torch.rand(1, 3, 8, 8))


def test_a_job_on_a_processor_ends_between_layers_of_its_model() -> None:
    frame, file = Size(8, 8), files.WeightsFile("lite-plus", 2, "faithful")

    def stop() -> None:
        raise Cancelled

    work = LitePlan(model=file.model, weights=file.name, frame=frame, tile=frame)
    with pytest.raises(Cancelled):
        FAMILY.load_frames(work, stop).upscale(torch.rand(1, 3, 8, 8))
    assert FAMILY.load_frames(work).upscale(torch.rand(1, 3, 8, 8)).shape[-1] == 16


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bits_are_rounded_alike_where_onednn_has_no_convolution_for_them(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, frames, found = load_lite(PATHS[0], dtype=dtype), torch.rand(1, 3, 9, 14), []
    for has_one in (True, False):
        monkeypatch.setattr(lite_net, "_has_convolution", lambda _, has=has_one: has)
        with torch.enable_grad():  # torch's own, which every CPU has
            slow = net(frames).detach()
        found.append(slow if has_one else net(frames))
    assert float((found[0] - found[1]).abs().max()) < 0.5 / 255
    assert not torch.equal(found[1], load_lite(PATHS[0])(frames))


def test_bfloat16_residual_costs_little() -> None:
    frames = torch.rand(1, 3, 32, 32)
    exact = load_lite(PATHS[0])(frames)
    short = load_lite(PATHS[0], dtype=torch.bfloat16)(frames)
    assert short.dtype == torch.float32
    assert float((exact - short).square().mean().sqrt()) < 0.5 / 255


def test_loaded_weights_equal_the_saved_ones_and_wrong_files_are_refused(tmp_path: Path) -> None:
    net, path = small_net(4), tmp_path / "net.safetensors"
    with pytest.raises(WeightsMissing):
        load_lite(path)
    save_file(dict(net.state_dict()), path)
    frames = torch.rand(1, 3, 9, 9)
    torch.testing.assert_close(load_lite(path)(frames), net(frames))
    save_file({**net.state_dict(), "left.over": torch.zeros(1)}, path)
    with pytest.raises(UnknownKeys, match=r"left\.over is unknown"):
        load_lite(path)
    path.write_bytes(b"no weights at all")
    with pytest.raises(UnknownKeys, match="damaged"):
        load_lite(path)
