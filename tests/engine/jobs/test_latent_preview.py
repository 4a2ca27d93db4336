from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.core.geometry import Size
from engine.jobs.services import LatentService
from engine.models.wan.latents.spaces import raw
from engine.models.wan.latents.vae import middle
from engine.pipeline import display
from engine.protocol import commands as c
from engine.protocol import events as e
from tests.helpers.jobs import Listener, running_engine
from tests.helpers.wan import a_latent, tiny_wan_config, write_latent, write_wan

ANSWERS = (e.LatentShown, e.TaskFailed)


@pytest.fixture(scope="module")
def vae(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("models") / "wan.safetensors"
    model = write_wan(path, tiny_wan_config())
    return path, model


def answer(jobs: Path, *commands: c.ShowLatent) -> tuple[e.Event, Listener]:
    with running_engine(jobs) as (engine, heard):
        for command in commands:
            engine.send(command)
        return heard.wait(*ANSWERS), heard


def pixels(picture: e.Picture) -> np.ndarray:
    shape = (picture.size.height, picture.size.width, 3)
    return np.frombuffer(picture.rgb, np.uint8).reshape(shape).astype(float)


def test_both_readings_of_the_first_picture(tmp_path: Path, vae: Any) -> None:
    path, model = vae
    latent = write_latent(tmp_path / "a.latent")
    command = c.ShowLatent(path=tmp_path / "a.latent", vae=str(path))
    assert LatentService().answer(command).turn == "replaces", "only the latest that waits runs"
    shown, heard = answer(tmp_path / "jobs", command)
    assert isinstance(shown, e.LatentShown), shown
    assert shown.is_whole
    for picture, values in ((shown.raw, latent), (shown.normalised, raw(latent))):
        assert picture.size == Size(40, 24)
        truth = model.decode(values[:, :, :1].double())[0, :, 0].movedim(0, -1)
        wanted = ((truth.clamp(-1, 1) + 1) / 2 * 255).numpy()
        assert abs(pixels(picture) - wanted).max() <= 1
    (read,) = heard.of(e.LatentRead)
    assert (read.model, read.channels, read.frames) == ("wan21-vae", 16, 9)
    assert (read.size, read.frame_rate) == (Size(40, 24), Fraction(16))
    assert read.guess == "normalised", "as values around zero look"


def test_of_a_large_picture_the_middle_is_shown(
    tmp_path: Path, vae: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(display, "_MOST_PIXELS", 40 * 24)
    write_latent(tmp_path / "a.latent", a_latent(16, 1, 12, 20))
    command = c.ShowLatent(path=tmp_path / "a.latent", vae=str(vae[0]), longest_side=20)
    shown, heard = answer(tmp_path / "jobs", command)
    assert isinstance(shown, e.LatentShown), shown
    assert not shown.is_whole
    assert shown.raw.size == shown.normalised.size == Size(20, 12)
    assert heard.of(e.LatentRead)[0].size == Size(160, 96)
    for grid, most, size in (
        (Size(20, 10), 200, Size(20, 10)),
        (Size(20, 10), 50, Size(10, 5)),
        (Size(1, 9), 1, Size(1, 3)),
        (Size(3, 3), 0, Size(1, 1)),
    ):
        box = middle(grid, most)
        assert box.size == size
        assert box.x == (grid.width - size.width) // 2
        assert box.bottom <= grid.height


def test_a_missing_vae_is_named_after_the_file_was_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPREEL_MODELS", str(tmp_path / "models"))
    write_latent(tmp_path / "a.latent", a_latent(48))
    refused, heard = answer(tmp_path / "jobs", c.ShowLatent(path=tmp_path / "a.latent"))
    assert isinstance(refused, e.TaskFailed), refused
    assert refused.error.code == "weights-missing"
    assert refused.error.params["file"].startswith("wan22-vae")
    assert heard.of(e.LatentRead)[0].model == "wan22-vae"


def test_a_bad_file_and_a_bad_vae_are_refused(tmp_path: Path) -> None:
    latent = a_latent()
    latent[0, 3] = torch.nan
    write_latent(tmp_path / "nan.latent", latent)
    refused, heard = answer(tmp_path / "jobs", c.ShowLatent(path=tmp_path / "nan.latent"))
    assert isinstance(refused, e.TaskFailed)
    assert (refused.error.code, heard.of(e.LatentRead)) == ("unreadable-media", [])
    write_latent(tmp_path / "a.latent")
    (tmp_path / "vae.safetensors").write_bytes(b"no model")
    command = c.ShowLatent(path=tmp_path / "a.latent", vae=str(tmp_path / "vae.safetensors"))
    refused, _ = answer(tmp_path / "jobs", command)
    assert isinstance(refused, e.TaskFailed)
    assert refused.error.code == "not-safetensors"
