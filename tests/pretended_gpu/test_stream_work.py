"""Predicted operations of the VAE of SeedVR2 against those that its streams run."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from engine.core.geometry import Size
from engine.models.seedvr2.planning.requirements import vae_work
from engine.models.seedvr2.shot import Shot
from engine.models.seedvr2.upscaler import shot_options
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from engine.models.video_vae.slicing import slices
from engine.settings.optimisations import VaeSwitches
from engine.settings.switches import Switches
from tests.helpers.memory import seedvr2_plan
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = pytest.mark.pretended_gpu

FRAMES = 21
SIZE = Size(640, 368)
TILES = {
    "encode_tile": Size(368, 368),
    "encode_span": 3,
    "decode_tile": Size(400, 368),
    "decode_span": 4,
    "warm_up": 2,
}


def test_the_streams_run_what_is_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    switches = VaeSwitches(convolution="3d")
    about = {"padded": SIZE, "device": "cuda", "vae_dtype": "float16", "clip": 5}
    plan = replace(seedvr2_plan(size=SIZE, switches=Switches(vae=switches)), **about, **TILES)
    files = "engine.models.seedvr2.planning.requirements.files.configs"
    monkeypatch.setattr(files, lambda plan: (None, VaeConfig()))
    with torch.device("meta"):
        weights = SeedVr2Vae(VaeConfig()).state_dict()
    with pretended_gpu(has_values=False) as gpu, torch.inference_mode():
        vae = FastVae(VaeConfig(), weights, device="cuda", dtype=torch.float16, switches=switches)
        shot = Shot(vae, lambda latents, first: latents, shot_options(plan), lambda tile: None)
        for start, end in slices(FRAMES, 4):
            frames = torch.empty(end - start, 3, SIZE.height, SIZE.width, device="cuda")
            for _part in shot.push(frames, last=end == FRAMES):
                pass
        ran = gpu.record.operations
    assert sum(vae_work(plan, FRAMES)) == pytest.approx(ran, rel=0.02)
