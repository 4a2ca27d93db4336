"""Every architecture of spandrel, tiny: recognised, planned, run in tiles and in whole frames."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.cli.main import main
from engine.core.errors import WrongModel
from engine.core.geometry import Size
from engine.models.community import upscaler
from engine.models.community.library import spandrel, warnings_ignored
from engine.models.community.network import recognised
from engine.models.community.plan import LEAST_OVERLAP, CommunityPlan
from engine.models.community.upscaler import CommunityUpscaler
from engine.models.user_files import describe
from engine.ops.resize import with_beyond
from engine.settings.schema import JobSettings
from engine.tiling.blend import Blender
from engine.tiling.grid import tile_grid
from tests.helpers.clips import make_clip
from tests.helpers.community import REFUSED, RUN, architectures, loaded, write_network
from tests.helpers.jobs import plan_of
from tests.helpers.memory import Allocations

SAMPLE = {"Compact", "ESRGAN", "SPAN", "SwinIR"}  # of the fast suite
FASTEST = {"Compact", "ESRGAN"}
ADDS_NOISE = {"AuraSR"}
FRAME, TILE = Size(208, 144), Size(144, 144)
SEAM = 1.02  # most that neighbours at a seam may differ, of what they do in whole frames


def each(names: Iterable[str], default: Iterable[str]) -> list[object]:
    """Parameters; all but the sample are slow, and those of it that are no default extended."""
    marks = {name: [pytest.mark.extended] for name in SAMPLE} | {name: [] for name in default}
    return [pytest.param(n, marks=marks.get(n, [pytest.mark.slow]), id=n) for n in names]


def smooth(size: Size, count: int = 1) -> Tensor:
    """Frames with detail of several px, as films have."""
    generator = torch.Generator().manual_seed(7)
    small = torch.rand(count, 3, size.height // 8, size.width // 8, generator=generator)
    return torch.nn.functional.interpolate(small, (size.height, size.width), mode="bicubic")


def in_tiles(upscaler: CommunityUpscaler, frames: Tensor, tile: Size) -> Tensor:
    """As the pipeline: tiles with the halo of the model, blended."""
    scale, size = upscaler.scale, Size(frames.shape[-1], frames.shape[-2])
    blender = Blender(size.scaled(scale), margin=upscaler.halo * scale)
    for box in tile_grid(size, tile, LEAST_OVERLAP):
        part = frames[..., box.y : box.bottom, box.x : box.right]
        blender.add(upscaler.upscale(part), box.scaled(scale), LEAST_OVERLAP * scale)
    return blender.result()


def steps(picture: Tensor, scale: int) -> float:
    """Mean difference of horizontal neighbours where the two tiles overlap."""
    begin, end = (FRAME.width - TILE.width) * scale, TILE.width * scale
    return float(picture[..., begin:end].diff(dim=-1).abs().mean())


@pytest.mark.parametrize("name", each(RUN, {*FASTEST, "SwinIR"}))
def test_it_is_recognised_in_both_formats_and_runs_as_by_spandrel(
    name: str, tmp_path: Path
) -> None:
    files = [write_network(tmp_path / f"a{suffix}", name) for suffix in (".pth", ".safetensors")]
    for path in files:
        own = describe(path)
        assert (own.kind, own.models) == ("upscaler", ("community",))
        assert own.network is not None
        assert own.network.architecture == spandrel().MAIN_REGISTRY[name].architecture.name
    found = loaded(files[0])
    frames = smooth(Size(72, 56))
    result = found.upscaler.upscale(frames)
    if name in ADDS_NOISE:  # other noise with another layout of pictures, the same in every run
        wanted = found.upscaler.upscale(frames)
    else:
        with warnings_ignored():
            plain = spandrel().ModelLoader().load_from_file(files[0])
        wanted = with_beyond(plain(frames.clamp(0, 1)).clone(), frames)
    assert result.shape == (1, 3, 56 * found.facts.scale, 72 * found.facts.scale)
    torch.testing.assert_close(result, wanted, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("name", each(RUN, FASTEST))
def test_tiles_show_no_seams(name: str, tmp_path: Path) -> None:
    found = loaded(write_network(tmp_path / "a.pth", name))
    frames = smooth(FRAME)
    with torch.inference_mode():
        whole = found.upscaler.upscale(frames)
        tiled = in_tiles(found.upscaler, frames, TILE)
    assert tiled.shape == whole.shape
    scale = found.facts.scale
    assert steps(tiled, scale) <= SEAM * steps(whole, scale)


@pytest.mark.parametrize("name", each(RUN, FASTEST))
def test_the_planned_bytes_are_those_that_torch_takes(name: str, tmp_path: Path) -> None:
    found = loaded(write_network(tmp_path / "a.pth", name))
    size = Size(256, 192)
    frames = smooth(size)
    with torch.inference_mode():
        found.upscaler.upscale(frames)
        with Allocations() as taken:
            found.upscaler.upscale(frames)
    planned = found.cost(size).working
    assert taken.peak_bytes <= planned * 1.10
    assert planned <= taken.peak_bytes * 1.10


@pytest.mark.slow
@pytest.mark.parametrize("side", [320, 384])
def test_bytes_that_grow_by_no_line_are_planned_for_a_tile(side: int, tmp_path: Path) -> None:
    """RGT reduces a frame by a power of 4 that follows from its sides."""
    path = write_network(tmp_path / "a.pth", "RGT")
    film = make_clip(tmp_path / "film.mkv", codec="ffv1", frames=1, size=(side, side))
    settings = JobSettings(model="community", model_file=str(path), tile=side)
    work = plan_of(film, tmp_path / "out.mkv", settings).work
    assert isinstance(work, CommunityPlan)
    upscaler, frames = loaded(path).upscaler, smooth(work.tile)
    with torch.inference_mode(), Allocations() as taken:
        upscaler.upscale(frames)
    assert taken.peak_bytes <= work.working_bytes * 1.01
    assert work.working_bytes <= taken.peak_bytes * 1.10


@pytest.mark.extended
def test_a_frame_is_planned_whole_though_smaller_ones_grow_as_their_square(tmp_path: Path) -> None:
    """From 1024 px on RGT reduces a frame four times as much."""
    path = write_network(tmp_path / "a.pth", "RGT")
    film = make_clip(tmp_path / "film.mkv", codec="ffv1", frames=1, size=(1280, 720))
    settings = JobSettings(model="community", model_file=str(path))
    work = plan_of(film, tmp_path / "out.mkv", settings).work
    assert isinstance(work, CommunityPlan)
    assert work.tile == Size(1280, 720)
    halves = loaded(path).cost(Size(640, 720))
    assert halves.working > 1.5 * work.cost.working


@pytest.mark.slow
def test_a_network_that_loops_over_parts_is_measured_on_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IPT takes a frame in pieces of 48 px, many of them together."""
    found, size = loaded(write_network(tmp_path / "a.pth", "IPT")), Size(640, 512)
    begin = time.process_time()
    found.cost(Size(1920, 1080))
    assert time.process_time() - begin < 30
    planned = found.cost(size)
    monkeypatch.setattr(upscaler, "_loops", lambda *_: False)
    upscaler.cost_of.cache_clear()
    measured = found.cost(size)
    assert planned.working == pytest.approx(measured.working, rel=0.10)
    assert planned.operations == pytest.approx(measured.operations, rel=0.10)
    assert planned != measured


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@pytest.mark.parametrize("name", REFUSED)
def test_networks_that_take_no_frames_are_refused(name: str, suffix: str, tmp_path: Path) -> None:
    path = write_network(tmp_path / f"a{suffix}", name)
    with pytest.raises(WrongModel) as caught:
        recognised(path)
    assert caught.value.case == REFUSED[name]


def test_the_table_has_every_architecture() -> None:
    assert set(architectures()) == {*RUN, *REFUSED}
    assert len(RUN) + len(REFUSED) == len(architectures()) == 42


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_it_runs_on_the_command_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPREEL_MODELS", str(tmp_path / "models"))
    assert main(["models", "import", str(write_network(tmp_path / "a.pth", name))]) == 0
    capsys.readouterr()
    assert main(["models", "list", "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    (own,) = [file["id"] for file in files if file["id"].startswith("own-")]
    film, result = make_clip(tmp_path / "film.mkv", codec="ffv1", frames=3), tmp_path / "out.mkv"
    words = ("--model", own, "-o", str(result), "--set", "codec=ffv1", "--json")
    main(["upscale", str(film), *words])
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["frames_out"] == 3
    # networks of random numbers make pictures that look like nothing
    failed = {check["code"] for check in report["checks"] if not check["passed"]}
    assert failed <= {"likeness", "black"}
