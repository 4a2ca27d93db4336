"""Jobs with steadiness: less flicker, and the same pictures wherever clips and tries begin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from torch import Tensor

from engine.bench.cases.video import flicker_rows
from engine.bench.run import BenchOptions
from engine.core.errors import Cancelled
from engine.core.geometry import Size
from engine.pipeline.stages.restore import Restore
from engine.protocol.events import PlanDowngraded, SegmentDone, Warned
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings, describe
from engine.video.read.decoder import VideoDecoder
from engine.video.read.frames import PlanarFrame
from tests.helpers.clips import make_picture
from tests.helpers.community import write_network
from tests.helpers.extended import rest_extended
from tests.helpers.jobs import plan_of, planes_of, run

FRAMES, SIZE, NOISE = 10, Size(32, 24), 4.0
STEP = 2  # px of the original that the moving shot moves by in a frame


def originals(shot: str) -> list[Tensor]:
    """Frames of twice the size of the source, [3, H, W], 0 to 1."""
    random = torch.Generator().manual_seed(3)
    large = SIZE.scaled(2)
    wide = large.width + STEP * FRAMES
    coarse = torch.rand(1, 3, 12, 20, generator=random)
    picture = torch.nn.functional.interpolate(coarse, (large.height, wide), mode="bicubic")[0]
    steps = [STEP * number if shot == "moving" else 0 for number in range(FRAMES)]
    return [picture[..., x : x + large.width].clamp(0, 1) for x in steps]


def write_film(path: Path, frames: list[Tensor]) -> Path:
    """A lossless film."""
    with av.open(str(path), "w") as output:
        stream = output.add_stream("ffv1", rate=25)
        stream.height, stream.width = frames[0].shape[-2:]
        stream.pix_fmt = "yuv444p"
        for frame in frames:
            codes = (255 * frame).round().byte().permute(1, 2, 0).contiguous().numpy()
            picture = av.VideoFrame.from_ndarray(codes, format="rgb24")
            output.mux(stream.encode(picture.reformat(format="yuv444p", threads=1)))
        output.mux(stream.encode(None))
    return path


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The source of a shot, next to "original.mkv"."""

    def made(shot: str) -> Path:
        folder = tmp_path_factory.mktemp(shot)
        frames = originals(shot)
        write_film(folder / "original.mkv", frames)
        random = torch.Generator().manual_seed(4)
        small = [torch.nn.functional.avg_pool2d(frame, 2) for frame in frames]
        noise = [NOISE / 255 * torch.randn(part.shape, generator=random) for part in small]
        noisy = [(part + grain).clamp(0, 1) for part, grain in zip(small, noise, strict=True)]
        return write_film(folder / "source.mkv", noisy)

    found = {shot: made(shot) for shot in ("still", "moving")}
    return found.__getitem__


def planned(source: Path, output: Path, steadiness: str = "mild", **settings: Any) -> Plan:
    """With Lite in float32, whose results do not depend on how many frames it is given."""
    usual = {"model": "lite", "treatment": "faithful", "codec": "ffv1"}
    plan = plan_of(source, output, JobSettings(**usual | settings, steadiness=steadiness))
    return replace(plan, work=replace(plan.work, dtype="float32"))


def made(plan: Plan, folder: Path) -> list[np.ndarray]:
    run(plan, folder)
    return planes_of(plan.output)


def decibels(film: Path, original: Path) -> float:
    squares = [
        np.mean((a.astype(float) - b) ** 2)
        for a, b in zip(planes_of(film), planes_of(original), strict=True)
    ]
    return float(10 * np.log10(255**2 / np.mean(squares)))


@pytest.mark.parametrize("shot", ["still", "moving"])
def test_a_still_shot_flickers_less_and_a_moving_one_is_as_good(
    shot: str, film: Callable[[str], Path], tmp_path: Path
) -> None:
    source, flicker, quality = film(shot), {}, {}
    for steadiness in ("off", "mild"):
        result = tmp_path / f"{steadiness}.mkv"
        made(planned(source, result, steadiness), tmp_path / steadiness)
        _, row = flicker_rows(BenchOptions(clip=source, result=result))
        flicker[steadiness] = row["flicker"]
        quality[steadiness] = decibels(result, source.with_name("original.mkv"))
    gained = quality["mild"] - quality["off"]
    print(f"\n{shot}: flicker {flicker}, PSNR {quality}")
    if shot == "still":
        assert flicker["mild"] < 0.7 * flicker["off"]
        assert gained > 0
    else:
        assert abs(gained) < 0.05


@pytest.mark.parametrize("model", rest_extended(["lite", "community"], "lite"))
def test_pictures_do_not_depend_on_clips_and_segments(
    model: str, film: Callable[[str], Path], tmp_path: Path
) -> None:
    settings = {}
    if model == "community":
        network = write_network(tmp_path / "tiny.pth", "Compact")
        settings = {"model": "community", "model_file": str(network)}
    plan = planned(film("still"), tmp_path / "whole.mkv", **settings)
    whole = made(plan, tmp_path / "whole")
    for clip, segment in ((1, 3), (2, 5), (3, 4), (8, 1)):
        work = replace(plan.work, clip_frames=clip)
        output = tmp_path / f"{clip}.mkv"
        other = replace(plan, work=work, segment_frames=segment, output=output)
        assert_equal(made(other, tmp_path / str(clip)), whole)
    off = replace(plan, work=replace(plan.work, steadiness="off"), output=tmp_path / "off.mkv")
    assert not np.array_equal(made(off, tmp_path / "off")[3], whole[3])


@pytest.mark.parametrize("clip", rest_extended([1, 3], 3))
def test_a_job_that_goes_on_gives_the_same_pictures(
    clip: int, film: Callable[[str], Path], tmp_path: Path
) -> None:
    plan = planned(film("still"), tmp_path / "whole.mkv")
    plan = replace(plan, work=replace(plan.work, clip_frames=clip), segment_frames=4)
    whole = made(plan, tmp_path / "whole")
    for finished in (1, 2):
        again = replace(plan, output=tmp_path / f"{finished}.mkv")
        folder = tmp_path / str(finished)
        with pytest.raises(Cancelled):
            run(again, folder, stop_after=finished)
        assert_equal(made(again, folder), whole)


def test_a_job_that_runs_out_of_memory_goes_on_with_the_same_pictures(
    film: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(film("still"), tmp_path / "whole.mkv")
    plan = replace(plan, work=replace(plan.work, clip_frames=2))
    whole = made(plan, tmp_path / "whole")
    calls, real = [0], Restore.run

    def refused(*args: Any) -> Any:
        calls[0] += 1
        if calls[0] == 5:
            raise torch.OutOfMemoryError("refused")
        return real(*args)

    monkeypatch.setattr(Restore, "run", refused)
    again = replace(plan, output=tmp_path / "again.mkv")
    events = run(again, tmp_path / "again")
    assert any(isinstance(event, PlanDowngraded) for event in events)
    lengths = [event.frames_done for event in events if isinstance(event, SegmentDone)]
    assert 0 < lengths[0] < FRAMES, "what was finished is kept"
    assert_equal(planes_of(again.output), whole)


def test_a_frame_before_one_that_was_read_wrongly_is_made_again_too(
    film: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = replace(planned(film("still"), tmp_path / "whole.mkv"), segment_frames=4)
    whole = made(plan, tmp_path / "whole")
    read, once = VideoDecoder.frames, iter([True])

    def lossy(decoder: VideoDecoder) -> Iterator[PlanarFrame]:
        is_wrong = next(once, False)
        return (frame for n, frame in enumerate(read(decoder)) if n != 4 or not is_wrong)

    monkeypatch.setattr(VideoDecoder, "frames", lossy)
    again = replace(plan, output=tmp_path / "again.mkv")
    events = run(again, tmp_path / "again")
    assert [e.notice.code for e in events if isinstance(e, Warned)] == ["segments-misread"]
    assert_equal(planes_of(again.output), whole)


def test_a_plan_says_that_frames_are_blended_and_what_that_takes(
    film: Callable[[str], Path], tmp_path: Path
) -> None:
    off, mild = (planned(film("still"), tmp_path / "a.mkv", how) for how in ("off", "mild"))
    assert {stage.stage for stage in mild.stages} - {stage.stage for stage in off.stages} == {
        "steady"
    }
    (stage,) = (stage for stage in mild.stages if stage.stage == "steady")
    assert stage.seconds > 0
    assert mild.peak_bytes > off.peak_bytes
    assert mild.seconds > off.seconds
    said = [notice.code for notice in mild.reasons.choices]
    assert "steadiness" in said
    assert "steadiness" not in [notice.code for notice in off.reasons.choices]


def test_models_of_shots_have_no_such_setting() -> None:
    assert describe(JobSettings)["steadiness"].families == ("lite", "community")


def test_what_is_restored_is_steady_unless_it_is_off(
    film: Callable[[str], Path], tmp_path: Path
) -> None:
    source, output = film("still"), tmp_path / "a.mkv"
    for model, treatment, wanted in (
        ("lite", "restore", "mild"),
        ("lite-plus", "restore", "mild"),
        ("lite", "faithful", "off"),
    ):
        chosen = JobSettings(model=model, treatment=treatment)
        assert plan_of(source, output, chosen).work.steadiness == wanted
        for steadiness in ("off", "mild"):
            named = replace(chosen, steadiness=steadiness)
            assert plan_of(source, output, named).work.steadiness == steadiness
    image = make_picture(tmp_path / "image.png", 3, size=(48, 32))
    chosen = JobSettings(model="lite", treatment="restore")
    assert plan_of(image, tmp_path / "b.png", chosen).work.steadiness == "off"
    model_file = str(write_network(tmp_path / "2x.pth"))
    chosen = JobSettings(model="community", model_file=model_file)
    assert plan_of(source, output, chosen).work.steadiness == "off"


def assert_equal(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(found) == len(wanted)
    for number, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert np.array_equal(a, b), f"frame {number}"
