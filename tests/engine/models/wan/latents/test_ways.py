"""Ways to decode and encode a file, as plans choose them: the same values but for rounding."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.core.geometry import Size
from engine.models.wan.candidates import warm_up
from engine.models.wan.family import FAMILY
from engine.models.wan.files import PUBLISHED
from engine.models.wan.latents.format import WanLatents
from engine.models.wan.latents.spaces import raw
from engine.models.wan.plan import WanPlan
from engine.protocol.plan import LatentPlan
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_budget, a_plan
from tests.helpers.wan import a_latent, tiny_wan_config, write_latent, write_wan

FORMAT, EARLY = WanLatents(), warm_up(PUBLISHED["wan21-vae"])
SIZE, TILE = Size(264, 8), Size(256, 8)
WAYS = [{"tile": TILE, "at_once": 2}, {"tile": TILE, "warm_up": EARLY}]


@pytest.fixture(scope="module")
def vae(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "wan.safetensors"
    write_wan(path, tiny_wan_config("2.1"))
    return path


def decoded(path: Path, latent: LatentPlan) -> Tensor:
    decoding = FORMAT.decoding(latent, SIZE, a_plan().work)
    assert FORMAT.planned(latent, decoding) == latent
    found = FORMAT.decode(
        path, decoding, normalised=True, watch=lambda tile: None, check=lambda: None
    )
    with torch.inference_mode():
        return torch.cat([frames.clone() for frames in found])


def test_every_way_to_decode_gives_the_same_frames(tmp_path: Path, vae: Path) -> None:
    path = tmp_path / "a.latent"
    write_latent(path, a_latent(16, 9, 1, 33))
    settings = JobSettings(latent_vae=str(vae), latents="normalised")
    latent = FORMAT.choose(FORMAT.header(path), settings, "cpu", a_budget())
    whole = decoded(path, latent)
    assert whole.shape == (33, 3, 8, 264)
    for way in WAYS:
        changed = {"decode_tile" if name == "tile" else name: way[name] for name in way}
        assert (decoded(path, replace(latent, **changed)) - whole).abs().max() < 2e-5


def test_every_way_to_encode_gives_the_same_latents(tmp_path: Path, vae: Path) -> None:
    frames = torch.rand(13, 3, 8, 264, generator=torch.Generator().manual_seed(1)) * 2 - 1
    files = FORMAT.weights("wan21-vae", str(vae))
    encoding = FORMAT.encoding("wan21-vae", files, SIZE, JobSettings(), "cpu", a_budget())
    film = FORMAT.header(write_film(tmp_path)).film

    def encoded(plan: WanPlan) -> Tensor:
        path = tmp_path / "b.latent"
        slices = [(frames[:5], False), (frames[5:9], False), (frames[9:], True)]
        done = FORMAT.encode(path, plan, slices, lambda: film, normalised=False, check=lambda: None)
        assert done == (4, path.stat().st_size)
        return load_file(path)["latent_tensor"]

    whole = encoded(encoding)
    assert FAMILY.needs(encoding).working["decode"] == 0
    for way in WAYS:
        changed = {name if name == "warm_up" else f"encode_{name}": way[name] for name in way}
        assert (encoded(replace(encoding, **changed)) - whole).abs().max() < 2e-5


def write_film(folder: Path) -> Path:
    write_latent(folder / "c.latent", raw(a_latent(16, 4, 1, 33)))
    return folder / "c.latent"
