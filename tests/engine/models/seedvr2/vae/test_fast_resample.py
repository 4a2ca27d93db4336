import pytest
import torch

from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from engine.ops.conv.causal_conv import Carry
from engine.settings.optimisations import VaeSwitches


def both_forms(decoder_time, switches):
    config = VaeConfig(
        block_out_channels=(2, 4, 4, 2),
        norm_groups=2,
        layers_per_block=1,
        decoder_time=decoder_time,
    )
    plain = SeedVr2Vae(config).double().requires_grad_(False)
    for parameter in plain.parameters():
        parameter.normal_(0, 0.2)
    weights = dict(plain.state_dict())
    return plain, FastVae(config, weights, dtype=torch.float64, switches=switches)


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("decoder_time", [(True, True, False), (False, True, True)])
def test_a_clip_may_be_cut_anywhere_even_behind_its_first_step(decoder_time, fold):
    plain, fast = both_forms(decoder_time, VaeSwitches().changed("upsampler_fold", fold))
    latent = torch.randn(1, 16, 3, 2, 1, dtype=torch.float64)
    wanted = plain.decode(latent)
    for cuts in ([1, 2], [1, 1, 1], [2, 1]):
        carry, parts = Carry(), []
        for part in latent.split(cuts, dim=2):
            frames, carry = fast.decode_slice(part, carry)
            parts.append(frames)
        ours = torch.cat(parts, dim=2)
        torch.testing.assert_close(ours, wanted, rtol=0, atol=1e-12 * float(wanted.abs().max()))
