"""Training as a command: it learns, goes on where it was, and its files are those of Upreel."""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from engine.bench.jobs import make_clip
from engine.core.geometry import Size
from engine.models.lite.files import LiteConfig
from engine.models.lite.net import load_lite
from engine.models.wan.files import files_of_wan
from engine.models.wan.vae.load import load_wan
from engine.models.wan.vae.plain import WanVae
from engine.ops.conv.causal_conv import Carry
from tests.helpers.extended import extended
from tests.helpers.wan import tiny_wan, tiny_wan_config, write_wan
from tools.training import degrade
from tools.training.__main__ import main
from tools.training.checkpointing import checkpoint_parts
from tools.training.clips import clips_in, images_in
from tools.training.cuttings import CleanCuttings
from tools.training.degrade import SOURCE
from tools.training.generated.pool import CHUNK
from tools.training.lite import gain_over_base, new_net, started_from
from tools.training.symmetry import make_symmetric
from tools.training.trainer import Schedule, Trainer
from tools.training.wan import WanDecoding

pytestmark = pytest.mark.extended

TINY = tiny_wan_config("2.1", dim=4, dec_dim=8)
SMALL = ("--frames", "5", "--side", "16", "--pool", "1", "--threads", "1")


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("films")
    make_clip(folder / "one.mp4", Size(96, 64), 12)
    make_clip(folder / "two.mp4", Size(64, 64), 7)
    (folder / "notes.txt").write_text("no film")
    return folder


@pytest.fixture(scope="module")
def vae(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vae") / "wan.safetensors"
    write_wan(path, TINY, dtype=torch.float32)
    return path


def tune(vae: Path, films: Path, out: Path, *more: str) -> dict[str, Tensor]:
    """Weights that a fine-tuning writes."""
    paths = ("--weights", str(vae), "--films", str(films), "--out", str(out))
    main(["wan", *paths, *SMALL, "--device", "cpu", *more])
    return load_file(out / "wan_tuned.safetensors")


def losses(out: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (out / "steps.jsonl").read_text().splitlines()]


def error_of(path: Path, films: Path) -> float:
    """Mean error of the decoder of a file on the clips."""
    vae = load_wan(path, form="plain")
    assert isinstance(vae, WanVae)
    clips = clips_in(films, frames=5, side=16, count=1, seed=1)
    given, wanted = task_of(vae, clips).batch(np.random.default_rng(3))
    with torch.no_grad():
        return float((vae.decode(vae.encode(given)) - wanted).abs().mean())


def task_of(vae: WanVae, clips: np.ndarray, *, has_checkpoints: bool = False) -> WanDecoding:
    return WanDecoding(vae, clips, batch=1, edges=0.1, has_checkpoints=has_checkpoints)


@pytest.mark.extended
def test_a_decoder_learns_and_its_file_is_one_of_upreel(
    vae: Path, films: Path, tmp_path: Path
) -> None:
    rest = ("--steps", "15", "--rate", "3e-3")
    written = tune(vae, films, tmp_path, *rest)
    found = losses(tmp_path)
    assert len(found) == 15
    assert np.mean(found[-5:]) < 0.5 * found[0]
    path = tmp_path / "wan_tuned.safetensors"
    assert error_of(path, films) < 0.8 * error_of(vae, films)
    before = load_file(vae)
    assert before.keys() == written.keys()
    changed = {name for name, value in written.items() if not torch.equal(value, before[name])}
    assert {name.split(".")[0] for name in changed} == {"decoder", "conv2"}
    assert files_of_wan("wan21-vae", str(path)).config == TINY
    load_wan(path, form="fast")
    with Image.open(tmp_path / "loss.png") as curve:
        assert len(curve.getcolors(2**16) or ()) > 3


@pytest.mark.extended
def test_clips_are_kept_to_check_with(
    vae: Path, films: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        tune(vae, films, tmp_path, "--pool", "16", "--steps", "10", "--rate", "3e-3")
    said = re.search(r"1 clips that were kept: error (.+) of 255, before (.+)", caplog.text)
    assert said is not None
    found, before = map(float, said.groups())
    assert 0 < found < before < 255


@pytest.mark.parametrize("precision", ["float32", *extended("float16")])
def test_a_training_that_went_on_equals_one_without_a_break(
    precision: str, vae: Path, films: Path, tmp_path: Path
) -> None:
    rest = ("--steps", "4", "--rate", "1e-3", "--precision", precision)
    whole = tune(vae, films, tmp_path / "whole", *rest)
    parts = tmp_path / "parts"
    begun = tune(vae, films, parts, *rest, "--until", "2")
    ended = tune(vae, films, parts, *rest, "--resume")
    assert any(not torch.equal(ended[name], begun[name]) for name in ended)
    assert all(torch.equal(ended[name], value) for name, value in whole.items())
    assert losses(parts) == losses(tmp_path / "whole")


def test_a_training_is_not_lost_nor_mixed_with_another(
    vae: Path, films: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    for refused, problem in (
        (("--steps", "2", "--resume"), "has no training to go on with"),
        (("--steps", "2"), ""),  # is done
        (("--steps", "2"), "has a training: --resume goes on with it"),
        (("--steps", "3", "--resume"), "other options: --steps 2 became 3"),
        (("--frames", "6"), "--frames 6: this VAE takes 1 + a multiple of 4"),
        (("--side", "12"), "--side 12: this VAE takes multiples of 8 px"),
        (("--side", "512"), "has 5 x 512 x 512 px"),
    ):
        if not problem:
            tune(vae, films, out, *refused)
            continue
        place = out if "--steps" in refused else tmp_path / refused[1]
        with pytest.raises(SystemExit):
            tune(vae, films, place, *refused)
        assert problem in capsys.readouterr().err


def test_wrong_files_and_a_rate_that_is_too_high_are_plain_sentences(
    vae: Path, films: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        tune(films / "notes.txt", films, tmp_path / "a")
    assert "notes.txt" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        tune(vae, films, tmp_path / "b", "--rate", "1e30", "--steps", "200")
    assert "try a lower rate" in capsys.readouterr().err


@pytest.mark.parametrize("layout", ["2.1", "2.2", "2x"])
def test_checkpointing_changes_no_gradient(layout: Any) -> None:
    side = 32  # two latents of the decoder that enlarges
    clips = np.random.default_rng(1).integers(0, 256, (3, 5, side, side, 3), np.uint8)
    found = []
    for has_checkpoints in (False, True):
        vae = tiny_wan(tiny_wan_config(layout), dtype=torch.float32)
        task = task_of(vae, clips, has_checkpoints=has_checkpoints)
        given, wanted = task.batch(np.random.default_rng(2))
        task.loss(task.result(given), wanted, 0.0).backward()
        found.append({name: value.grad for name, value in vae.named_parameters()})
    plain, checked = found
    assert plain.keys() == checked.keys()
    for name, gradient in plain.items():
        assert (gradient is None) == name.startswith(("encoder", "conv1")), name
        assert gradient is None or torch.equal(gradient, checked[name]), name


def test_a_part_that_is_computed_twice_takes_no_slices() -> None:
    vae = tiny_wan(tiny_wan_config("2.1"), dtype=torch.float32)
    checkpoint_parts((vae.decoder.conv1,))
    with pytest.raises(ValueError, match="whole clips"):
        vae.decode_slice(torch.zeros(1, 16, 1, 2, 2), Carry())


def test_clips_are_the_same_for_a_seed_and_reach_over_no_cut(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "two_shots.mkv"), "w") as film:
        stream = film.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "bgr0"
        for number in range(14):
            picture = np.full((48, 64, 3), 40 if number < 7 else 200, np.uint8)
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            film.mux(stream.encode(frame.reformat(format="bgr0", threads=1)))
        film.mux(stream.encode(None))
    first, again, other = (
        clips_in(tmp_path, frames=5, side=16, count=20, seed=seed) for seed in (1, 1, 2)
    )
    assert first.shape == (20, 5, 16, 16, 3)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert {tuple(np.unique(clip)) for clip in first} == {(40,), (200,)}
    whole = images_in(tmp_path, side=48, count=20, seed=1)
    assert [one.shape for one in whole] == 14 * [(48, 64, 3)]
    with pytest.raises(argparse.ArgumentError, match="49 x 49"):
        images_in(tmp_path, side=49, count=20, seed=1)


class Line:
    """Learns a factor by Muon and a bias by AdamW; the loss is as large as asked for."""

    matrices = ("weight",)

    def __init__(self, size: float) -> None:
        self.net: nn.Module = nn.Linear(1, 1)
        self._size = size

    def batch(self, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        return torch.ones(1, 1), torch.zeros(1, 1)

    def result(self, given: Tensor) -> Tensor:
        return self.net(given)

    def loss(self, result: Tensor, wanted: Tensor, progress: float) -> Tensor:
        return self._size * (result - wanted).square().sum()


def test_gradients_too_large_for_float16_leave_a_step_out_and_halve_the_scale() -> None:
    for size, is_taken in ((1e-2, True), (1e30, False)):
        task = Line(size)
        schedule = Schedule(steps=10, rate=1e-2)
        trainer = Trainer(task, schedule, device=torch.device("cpu"), precision="float16")
        before = [value.detach().clone() for value in task.net.parameters()]
        first, second = trainer.advance(), trainer.advance()
        changed = any(
            not torch.equal(a, b) for a, b in zip(before, task.net.parameters(), strict=True)
        )
        assert changed == is_taken
        assert second.scale == first.scale * (1 if is_taken else 0.5)


def write_pictures(folder: Path) -> Path:
    """Three pictures of waves."""
    ys_xs = np.mgrid[0:256, 0:256]
    folder.mkdir()
    for number in range(3):
        wave = np.sin(ys_xs[0] / (3 + number)) * np.cos(ys_xs[1] / (4 + number)) * 110 + 128
        Image.fromarray(np.repeat(wave[..., None], 3, 2).astype(np.uint8)).save(
            folder / f"{number}.png"
        )
    return folder


def test_lite_learns_from_pictures(tmp_path: Path) -> None:
    folder, out = write_pictures(tmp_path / "pictures"), tmp_path / "out"
    rng = np.random.default_rng(5)
    sizes = ("--channels", "8", "--layers", "1", "--patch", "32", "--threads", "1")
    rest = ("--steps", "60", "--rate", "3e-3", "--device", "cpu")
    main(["lite", "--scale", "2", "--form", "faithful", "--films", str(folder), "--out", str(out),
          *sizes, *rest])  # fmt: skip
    cuttings = CleanCuttings(images_in(folder, side=64, count=3, seed=1), 2)
    sources, targets = zip(*(cuttings.draw(rng, 32) for _ in range(16)), strict=True)
    trained = load_lite(out / "lite_x2_faithful.safetensors")
    assert gain_over_base(trained, np.stack(sources), np.stack(targets)) > 1


def test_a_larger_lite_begins_with_what_a_smaller_one_gives(tmp_path: Path) -> None:
    small = new_net(LiteConfig(scale=2, channels=8, layers=1), 3)
    for parameter in small.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    path = tmp_path / "small.safetensors"
    save_file(small.state_dict(), path)
    with pytest.raises(argparse.ArgumentError, match="turn"):
        started_from(path, small.config, 4)
    make_symmetric(small)
    save_file(small.state_dict(), path)
    frames = torch.rand(3, 2, 3, 12, 9)
    with torch.no_grad():
        wanted = small(frames[1])
        for more in ({"channels": 24}, {"layers": 3}, {"frames": 3}, {"channels": 16, "layers": 2}):
            config = replace(small.config, **more)
            grown = started_from(path, config, 4)
            found = grown(frames[1], frames[0], frames[2])
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)
        other = started_from(path, replace(small.config, scale=4), 4)
        assert torch.equal(other.convolutions[1].weight, small.convolutions[1].weight)
    with pytest.raises(argparse.ArgumentError, match="larger"):
        started_from(path, replace(small.config, layers=0), 4)
    with pytest.raises(argparse.ArgumentError, match="multiple of 8"):
        new_net(replace(small.config, channels=12), 4)


def test_lite_of_three_frames_goes_on_from_one_of_one_and_learns_from_moving_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, pool = write_pictures(tmp_path / "pictures"), tmp_path / "pool"
    side = 2 * SOURCE
    drawn = np.random.default_rng(3).integers(0, 256, (CHUNK, side, side, 3), np.uint8)
    pool.mkdir()
    np.save(pool / f"seed1_{side}px_00000.npy", drawn)  # as if it had been drawn
    common = ["lite", "--scale", "2", "--films", str(folder), "--drawn", "4", "--channels", "8",
              "--layers", "1", "--patch", "32", "--threads", "1", "--steps", "2", "--batch", "2",
              "--pool-folder", str(pool), "--pool", "3", "--device", "cpu"]  # fmt: skip
    first, second, pairs = tmp_path / "first", tmp_path / "second", tmp_path / "pairs"
    main([*common, "--form", "faithful", "--out", str(first)])
    start = first / "lite_x2_faithful.safetensors"
    main([*common, "--form", "restore", "--frames", "3", "--pairs", str(pairs),
          "--start", str(start), "--rate", "0", "--out", str(second)])  # fmt: skip
    one, three = load_lite(start), load_lite(second / "lite_x2_restore.safetensors")
    frames = torch.rand(3, 2, 3, 12, 9)
    assert three.config.frames == 3
    torch.testing.assert_close(three(*frames), one(frames[0]))  # learning rate 0: not looked at yet
    with safe_open(pairs / "x2_restore_1.safetensors", "numpy") as kept:
        assert kept.get_slice("sources").get_shape() == [3 * (3 + 4), 3, 112, 112, 3]
    for useless in (["--frames", "3"], ["--pairs", str(pairs)]):
        with pytest.raises(SystemExit, match="2"):
            main([*common, "--form", "faithful", *useless, "--out", str(tmp_path / "none")])
    with pytest.raises(SystemExit, match="2"):  # pairs of other images
        main([*common, "--form", "restore", "--drawn", "3", "--pairs", str(pairs),
              "--out", str(tmp_path / "third")])  # fmt: skip
    changed = tmp_path / "degrade.py"
    changed.write_bytes(Path(degrade.__file__).read_bytes() + b"# changed")
    monkeypatch.setattr(degrade, "__file__", str(changed))
    with pytest.raises(SystemExit, match="2"):  # pairs of another version
        main([*common, "--form", "restore", "--pairs", str(pairs),
              "--out", str(tmp_path / "fourth")])  # fmt: skip
