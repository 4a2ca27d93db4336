from dataclasses import replace

import pytest
import torch

from engine.bench.run import BenchOptions
from engine.bench.workload import (
    device_of,
    dit_run,
    vae_run,
    variants,
)
from engine.core.errors import NoUsableGpu, SettingsError
from engine.core.geometry import Size
from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B
from engine.models.seedvr2.dit.random_dit import KINDS, MIDDLE
from engine.settings.optimisations import DitSwitches, VaeSwitches
from tests.helpers.seedvr2 import tiny_config, tiny_dit_config
from tests.helpers.wan import tiny_wan_config

OPTIONS = BenchOptions(
    config=tiny_config(), dit=tiny_dit_config(), size=Size(32, 16), device="cpu", threads=1
)
DIT_OPTIONS = replace(OPTIONS, size=Size(96, 64))


def test_both_variants_of_a_vae_do_the_same_work() -> None:
    for model, side, config in (
        ("seedvr2-vae", "decode", tiny_config()),
        ("wan21-vae", "encode", tiny_wan_config("2.1")),
        ("wan22-vae", "decode", tiny_wan_config("2.2")),
        ("wan-2x", "decode", tiny_wan_config("2x")),
    ):
        base = replace(vae_run(replace(OPTIONS, model=model, config=config), side), frames=5)
        weights, again = base.weights(), base.weights()
        assert all(torch.equal(weights[name], again[name]) for name in weights)
        assert torch.equal(base.input(), base.input())
        plain, fast = (
            run.work_of(run.built(weights))() for run in (base, replace(base, form="fast"))
        )
        if side == "decode":
            scale = 2 if model == "wan-2x" else 1
            assert plain.shape == (1, 3, 5, 16 * scale, 32 * scale)
        assert float((plain - fast).abs().max()) < 1e-5 * float(plain.abs().max())


def test_both_variants_of_a_transformer_have_the_same_weights_and_inputs() -> None:
    for kind in KINDS:
        base = dit_run(replace(DIT_OPTIONS, dit=tiny_dit_config(kind), dtype="float64"), kind)
        plain = base.built()
        exact = base.work_of(plain)()
        assert exact.shape == (2, 8, 12, 16)
        assert 0.1 < float(exact.std()) < 10
        for switches in (DitSwitches(), DitSwitches(folded_modulation=True)):
            run = replace(base, form="fast", switches=switches)
            assert float((run.work_of(run.built(plain))() - exact).abs().max()) < 1e-10
        assert float((replace(base, form="fast").ready()() - exact).abs().max()) < 1e-10
        assert torch.equal(base.work_of(plain)(), exact)  # the shared weights did not change
        for first, again in zip(base.input(), base.input(), strict=True):
            assert torch.equal(first, again)


def test_sizes_and_dtypes_suit_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    options = BenchOptions()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    vae, dit = vae_run(options, "decode"), dit_run(options, "7b")
    assert (vae.device, vae.dtype, vae.size) == ("cpu", "float32", Size(256, 256))
    assert (dit.dtype, dit.config, dit.latent_shape) == ("float32", MIDDLE["7b"], (2, 90, 160))
    assert dit.tokens == 2 * 45 * 80
    assert dit_run(replace(options, size=Size(856, 480)), "3b").latent_shape == (2, 60, 108)
    with pytest.raises(NoUsableGpu, match="cannot use an NVIDIA GPU"):
        vae_run(replace(options, device="cuda"), "decode")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    vae = vae_run(options, "decode")
    assert (vae.device, vae.dtype, vae.size) == ("cuda", "float16", Size(1024, 1024))
    assert vae_run(replace(options, quick=True), "decode").size == Size(256, 256)
    found = [dit_run(options, kind) for kind in KINDS]
    assert [run.config for run in found] == [DIT_3B, DIT_7B]
    assert {run.dtype for run in found} == {"bfloat16"}
    assert device_of(replace(options, device="cpu")) == "cpu"


def test_switches_and_groups_of_them_are_compared() -> None:
    base = vae_run(OPTIONS, "decode")
    assert dict(variants(OPTIONS, base))["fast"].switches == VaeSwitches()
    assert list(dict(variants(replace(OPTIONS, form="plain"), base))) == ["plain"]
    options = replace(OPTIONS, without=("vae.all", "dit.all"), only=("vae.in_place", "exact"))
    options.check()
    found = dict(variants(options, base))
    assert list(found) == ["plain", "fast", "without all", "only in_place", "only exact"]
    assert found["without all"].switches == found["only exact"].switches == VaeSwitches.all_off()
    assert found["only in_place"].switches == VaeSwitches.only("in_place")


def test_impossible_options_are_refused() -> None:
    for wrong, case in (
        (replace(OPTIONS, without=("exact",)), "unknown-optimisation"),
        (replace(OPTIONS, only=("vae.fly",)), "unknown-optimisation"),
        (replace(OPTIONS, device="tpu"), "no-such-gpu"),
        (replace(OPTIONS, dtype="int4"), "unknown-dtype"),
        (replace(OPTIONS, size=Size(33, 32)), "not-encodable"),
        (replace(OPTIONS, frames=(6,)), "not-a-clip-length"),
        (replace(OPTIONS, runs=0), "less-than-one"),
    ):
        with pytest.raises(SettingsError) as caught:
            wrong.check()
        assert caught.value.case == case
