from __future__ import annotations

import pytest
import torch
from torch import nn

from engine.models.seedvr2.dit import modulation
from engine.models.seedvr2.dit.blocks import ATTENTION, MLP
from engine.models.seedvr2.dit.fast import FastDit
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.settings.optimisations import DitSwitches
from tests.helpers.fast_dit import fast_dit, gap
from tests.helpers.seedvr2 import random_dit, random_inputs, tiny_dit_config

KINDS = pytest.mark.parametrize("kind", ["3b", "7b"])
FOLDED = DitSwitches(folded_modulation=True)
T = 1000.0


def unfinished(plain: SeedVr2Dit) -> FastDit:
    """The fast variant with the very weights of the plain one, not folded yet."""
    with torch.device("meta"):
        fast = FastDit(plain.config, FOLDED)
    fast.load_state_dict(plain.state_dict(), assign=True)
    return fast


@KINDS
def test_nothing_is_left_to_do_for_the_usual_time_step(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modulation, "_LEAST", 0.0)
    fast = fast_dit(random_dit(tiny_dit_config(kind)), FOLDED)
    fast(*random_inputs(fast.config), T)
    for layer, block in enumerate(fast.blocks):
        found = fast._modulations.of(block).shifts
        ends = fast.config.text_ends(layer)
        for (_, step), left in found.items():
            assert left.gate is None
            stays = ends and step == ATTENTION  # the text sees these weights as they are
            assert (left.shift is None and left.scale is None) or stays
    fast(*random_inputs(fast.config), 999.0)
    left = fast._modulations.of(fast.blocks[0]).shifts["vid", MLP]
    assert left.scale is not None
    assert left.shift is not None
    assert left.gate is not None


@KINDS
def test_the_weights_of_others_stay_as_they_are(kind: str) -> None:
    plain = random_dit(tiny_dit_config(kind))
    before = {name: value.clone() for name, value in plain.state_dict().items()}
    fast = unfinished(plain)
    for _ in range(2):  # the second time changes nothing
        fast.finish_loading()
    inputs = random_inputs(plain.config)
    assert gap(fast(*inputs, T), plain(*inputs, T)) < 1e-10
    assert all(torch.equal(value, before[name]) for name, value in plain.state_dict().items())


@KINDS
def test_factors_that_are_almost_zero_stay_outside(kind: str) -> None:
    plain = random_dit(tiny_dit_config(kind))
    embedding = plain.emb_in(T).view(-1, 2, 3)
    for block in plain.blocks:
        for ada in block.ada.values():
            for step, name in ((ATTENTION, "attn"), (MLP, "mlp")):
                for kind_of, which in (("scale", 1), ("gate", 2)):
                    vector = getattr(ada, f"{name}_{kind_of}")
                    vector.data[:2] = torch.tensor([0.0, 1e-12]) - embedding[:2, step, which]
    fast = fast_dit(plain, FOLDED)
    inputs = random_inputs(plain.config)
    for timestep in (T, 500.0):
        found = fast(*inputs, timestep)
        assert bool(found.isfinite().all())
        assert gap(found, plain(*inputs, timestep)) < 1e-10


def test_layers_that_are_no_plain_floats_keep_their_weights() -> None:
    plain = random_dit(tiny_dit_config("7b"))
    fast = unfinished(plain)
    block = fast.blocks[0]
    for name in ("attn.proj_qkv.vid", "mlp.vid.proj_out"):
        owner, _, leaf = name.rpartition(".")
        setattr(block.get_submodule(owner), leaf, nn.Sequential(block.get_submodule(name)))
    fast.finish_loading()
    inputs = random_inputs(plain.config)
    assert gap(fast(*inputs, T), plain(*inputs, T)) < 1e-10
