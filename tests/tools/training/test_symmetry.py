"""Symmetric networks, and the measure of structure that some of them learn by."""

import numpy as np
import pytest
import torch
from skimage.metrics import structural_similarity

from engine.core.paths import resource
from engine.models.lite.files import FILES, LiteConfig
from engine.models.lite.net import LiteNet, load_lite
from tools.training.cuttings import DamagedCuttings
from tools.training.lite import LiteEnlargement, new_net, similarity
from tools.training.symmetry import is_symmetric, make_symmetric
from tools.training.trainer import Schedule, Trainer

CONFIGS = [
    LiteConfig(scale=2, channels=16, layers=2),
    LiteConfig(scale=4, channels=8, layers=1, frames=3),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"x{config.scale}")
def test_a_turned_or_mirrored_source_gives_the_result_turned_or_mirrored(config: LiteConfig):
    net = LiteNet(config)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    assert not is_symmetric(net)
    make_symmetric(net)
    assert is_symmetric(net)
    frames = torch.rand(3, 1, 3, 14, 12)
    with torch.no_grad():
        result = net(*frames)
        turned, mirrored = net(*frames.rot90(1, (-2, -1))), net(*frames.flip(-1))
    torch.testing.assert_close(turned, result.rot90(1, (-2, -1)))
    torch.testing.assert_close(mirrored, result.flip(-1))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"x{config.scale}")
def test_training_leaves_a_network_symmetric(config: LiteConfig):
    rng = np.random.default_rng(5)
    sources = rng.integers(0, 256, (2, config.frames, 24, 24, 3), np.uint8)
    targets = rng.integers(0, 256, (2, 24 * config.scale, 24 * config.scale, 3), np.uint8)
    net = new_net(config, 1)
    before = net.convolutions[1].get_parameter("weight").clone()
    cuttings = DamagedCuttings(sources, targets)
    task = LiteEnlargement(net, cuttings, batch=2, patch=20, has_structure=True)
    trainer = Trainer(task, Schedule(steps=20, rate=1e-2), device=torch.device("cpu"))
    for _ in range(20):
        trainer.advance()
    assert (before - net.convolutions[1].get_parameter("weight")).abs().max() > 1e-2
    assert is_symmetric(net)
    drifted = {
        key: value + 2e-5 * torch.randn(value.shape) for key, value in trainer.average.items()
    }
    written = task.weights(drifted)
    mean = LiteNet(config)
    mean.load_state_dict(written)
    make_symmetric(mean)
    for key, value in mean.state_dict().items():
        assert torch.equal(value, written[key].float()), "rounding is the same in all eight ways"


def test_structure_is_measured_as_others_do():
    rng = np.random.default_rng(6)
    first, second = rng.random((2, 30, 40))
    found = similarity(*(torch.from_numpy(part)[None] for part in (first, second)))
    _, wanted = structural_similarity(
        first, second, win_size=7, data_range=1.0, use_sample_covariance=False, full=True
    )
    np.testing.assert_allclose(found[0].numpy(), wanted[3:-3, 3:-3], atol=1e-12)
    assert similarity(torch.ones(1, 9, 9) / 3, torch.ones(1, 9, 9) / 3).min() > 1 - 1e-5


def test_networks_of_the_program_are_symmetric_so_that_trainings_can_start_from_them():
    paths = sorted(resource("weights").glob("*.safetensors"))
    assert len(paths) == len(FILES)
    assert all(is_symmetric(load_lite(path)) for path in paths)
