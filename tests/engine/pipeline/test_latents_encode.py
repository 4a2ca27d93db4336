"""Films to files of latents, with very small VAEs."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.api import encode_latents, probe
from engine.core.control import Control
from engine.core.errors import (
    Cancelled,
    ContainerMismatch,
    EngineError,
    FeatureMissing,
    OutputExists,
    PlanDoesNotFit,
    UnreadableMedia,
    UnsupportedMedia,
    WeightsMissing,
    WrongModel,
)
from engine.core.geometry import Size
from engine.models.wan.latents.file import LatentFile
from engine.models.wan.latents.spaces import normalised
from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.plain import WanVae
from engine.pipeline import latents_encode
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.report import EncodedLatents
from engine.settings.schema import EngineSettings, JobSettings
from engine.video.read.frame_reader import FrameReader
from tests.helpers.clips import Clip, make_clip
from tests.helpers.extended import rest_extended
from tests.helpers.fields import interlaced, telecined, write
from tests.helpers.jobs import ENDS, running_engine
from tests.helpers.plans import a_budget
from tests.helpers.program import NEEDS_FFMPEG, ffmpeg
from tests.helpers.wan import tiny_wan_config, write_latent, write_wan

pytestmark = NEEDS_FFMPEG
LIMIT = 2e-5  # float32 against float64, as the golden files'


@pytest.fixture(scope="module")
def vaes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, WanVae]]:
    folder = tmp_path_factory.mktemp("models")
    found = {}
    for model, layout in (("wan21-vae", "2.1"), ("wan22-vae", "2.2")):
        path = folder / f"{model}.safetensors"
        found[model] = (path, write_wan(path, tiny_wan_config(layout)))
    return found


def a_film(path: Path, frames: int, size: str = "48x32") -> Path:
    """Lossless RGB, so that a test knows every number."""
    source = f"testsrc2=size={size}:rate=30000/1001,trim=end_frame={frames},format=gbrp"
    ffmpeg("-f", "lavfi", "-i", source, "-c:v", "ffv1", path)
    return path


def clip_of(path: Path) -> Tensor:
    """[1, 3, T, H, W] float64 in [-1, 1]."""
    with FrameReader(probe(path)) as reader:
        codes = np.stack([np.stack(frame.planes) for frame in reader])
    return torch.from_numpy(codes).double().div(255).mul(2).sub(1).movedim(0, 1)[None]


def padded(clip: Tensor, step: int) -> Tensor:
    """With its last column, row and frame again, up to what a VAE takes."""
    height, width = clip.shape[-2:]
    rows = [min(y, height - 1) for y in range(-(-height // step) * step)]
    columns = [min(x, width - 1) for x in range(-(-width // step) * step)]
    count = clip.shape[2]
    times = [min(t, count - 1) for t in range(1 + -(-(count - 1) // 4) * 4)]
    return clip[:, :, times][..., rows, :][..., columns]


def encoded(source: Path, vae: Any, model: str = "wan21-vae", **changes: Any) -> EncodedLatents:
    settings = JobSettings(**{"latent_vae": str(vae[0]), **changes})
    target = source.with_suffix(".latent")
    return encode_latents(source, target, model, settings, engine_settings=EngineSettings())


CLIPS = [("wan21-vae", 1, "48x32"), ("wan21-vae", 9, "50x35"), ("wan22-vae", 6, "50x35")]


@pytest.mark.parametrize(("model", "frames", "size"), rest_extended(CLIPS, *CLIPS[1:]))
def test_latents_are_those_of_the_whole_clip(
    tmp_path: Path, vaes: Any, model: str, frames: int, size: str
) -> None:
    film = a_film(tmp_path / "film.mkv", frames, size)
    done = encoded(film, vaes[model], model)
    step = 8 if model == "wan21-vae" else 16
    wanted = vaes[model][1].encode(padded(clip_of(film), step))
    found = load_file(done.output)["latent_tensor"]
    assert found.dtype == torch.float32
    assert (found - wanted).abs().max() < LIMIT
    assert (done.frames, done.latents) == (frames, wanted.shape[2])
    assert done.padded == Size(wanted.shape[-1] * step, wanted.shape[-2] * step)
    assert done.padded_frames == 4 * done.latents - 3
    assert done.bytes == done.output.stat().st_size
    with LatentFile(done.output) as file:
        film_again = file.header.film
    assert (film_again.size, film_again.frames) == (done.size, frames)
    assert film_again.rate == Fraction(30000, 1001)
    assert {path.name for path in tmp_path.iterdir()} == {"film.mkv", "film.latent"}
    done = encoded(film, vaes[model], model, latents="normalised", overwrite=True)
    assert done.reading == "normalised"
    assert torch.equal(load_file(done.output)["latent_tensor"], normalised(found))


def test_a_part_of_a_film_as_it_is_seen(tmp_path: Path, vaes: Any) -> None:
    film = make_clip(tmp_path / "film.mp4", Clip(frames=20, rate=Fraction(25), rotation=90))
    done = encoded(film, vaes["wan21-vae"], start="0.2", stop="0.44")
    video = probe(film).video
    assert (done.frames, done.padded_frames) == (6, 9)
    assert done.size == video.size.transposed()


def test_an_interlaced_film_is_deinterlaced(tmp_path: Path, vaes: Any) -> None:
    film = write(tmp_path / "film.mkv", interlaced(9, "tt"))
    assert encoded(film, vaes["wan21-vae"], deinterlace="fields").frames == 18
    film = write(tmp_path / "television.mkv", telecined(8), rate=30)
    assert encoded(film, vaes["wan21-vae"], deinterlace="film").frames == 8


def test_there_and_back_is_the_vaes_round_trip(tmp_path: Path, vaes: Any) -> None:
    film = a_film(tmp_path / "film.mkv", 6, "50x35")
    path, vae = vaes["wan21-vae"]
    done = encoded(film, (path, vae))
    clip = padded(clip_of(film), 8)
    wanted = vae.decode(vae.encode(clip))[..., :6, :35, :50].clamp(-1, 1)
    settings = JobSettings(model="none", codec="ffv1", latents="raw", latent_vae=str(path))
    out = tmp_path / "again.mkv"
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.StartQueue())
        engine.send(c.AddJob(job_id="a", source=done.output, settings=settings, output=out))
        assert isinstance(heard.wait(*ENDS), e.JobFinished)
    made = probe(out).video
    assert (made.size, made.frame_count) == (Size(50, 35), 6), "what was added is cut off again"
    assert made.frame_rate == Fraction(30000, 1001)
    with FrameReader(probe(out)) as reader:
        codes = np.stack([np.stack(frame.planes) for frame in reader]).astype(np.float64)
    truth = ((wanted[0].movedim(0, 1) + 1) / 2 * 65535).numpy()
    assert abs(codes - truth).max() < 1.5


REFUSED: dict[str, tuple[type[EngineError], dict[str, str]]] = {
    "name": (ContainerMismatch, {"target": "a.mkv"}),
    "exists": (OutputExists, {"target": "there.latent"}),
    "latent": (UnsupportedMedia, {"source": "there.latent"}),
    "vae": (WrongModel, {"model": "wan22-vae"}),
    "missing": (WeightsMissing, {"latent_vae": ""}),
    "empty part": (UnreadableMedia, {"start": "100"}),
}


def test_refusals_leave_no_files(tmp_path: Path, vaes: Any) -> None:
    a_film(tmp_path / "film.mkv", 5)
    write_latent(tmp_path / "there.latent")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    usual = {"source": "film.mkv", "target": "a.latent", "model": "wan21-vae"}
    for kind, (error, changes) in REFUSED.items():
        settings = {"latent_vae": str(vaes["wan21-vae"][0]), **usual, **changes}
        source, target, model = (settings.pop(name) for name in usual)
        with pytest.raises(error) as caught:
            encode_latents(tmp_path / source, tmp_path / target, model, JobSettings(**settings))
        assert caught.value.hint, kind
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before, kind


def test_too_little_memory_is_refused(
    tmp_path: Path, vaes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = a_film(tmp_path / "film.mkv", 1)
    little = a_budget(ram_bytes=420 * 2**20 + 1000)
    monkeypatch.setattr(latents_encode, "measure_budget", lambda *_, **__: little)
    with pytest.raises(PlanDoesNotFit, match="even with small tiles"):
        encoded(film, vaes["wan21-vae"])


def test_what_the_device_cannot_do_is_refused(tmp_path: Path, vaes: Any) -> None:
    film = a_film(tmp_path / "film.mkv", 1)
    with pytest.raises(FeatureMissing, match=r"vae\.fp16_sums=on cannot be used"):
        encoded(film, vaes["wan21-vae"], switches="vae.fp16_sums=on")
    assert [path.name for path in tmp_path.iterdir()] == ["film.mkv"]


def test_cancelling_leaves_no_files(tmp_path: Path, vaes: Any) -> None:
    film, control = a_film(tmp_path / "film.mkv", 30), Control()
    seen: list[tuple[int, int]] = []

    def report(done: int, total: int) -> None:
        seen.append((done, total))
        control.cancel()

    settings = JobSettings(latent_vae=str(vaes["wan21-vae"][0]))
    job = (film, tmp_path / "a.latent", "wan21-vae", settings, EngineSettings())
    with pytest.raises(Cancelled):
        latents_encode.encode_latents(*job, report=report, control=control)
    assert seen == [(5, 30)]
    assert [path.name for path in tmp_path.iterdir()] == ["film.mkv"]


def test_out_of_memory_makes_tiles(
    tmp_path: Path, vaes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = a_film(tmp_path / "film.mkv", 1, "304x40")
    whole = load_file(encoded(film, vaes["wan21-vae"]).output)["latent_tensor"]
    real, tiles = FastWanVae.encode_high, []

    def full(self: FastWanVae, *args: Any) -> Any:
        raise torch.OutOfMemoryError("no")

    def high(self: FastWanVae, frames: Tensor, carry: Any) -> Any:
        tiles.append(frames.shape)
        return real(self, frames, carry)

    monkeypatch.setattr(FastWanVae, "encode_slice", full)
    monkeypatch.setattr(FastWanVae, "encode_high", high)
    done = encoded(film, vaes["wan21-vae"], overwrite=True)
    tiled = load_file(done.output)["latent_tensor"]
    assert len(tiles) > 1
    assert (tiled - whole).abs().max() < LIMIT
