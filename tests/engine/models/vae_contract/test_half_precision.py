"""In half precision the fast variants are as near to the truth as the plain ones."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import pytest
import torch
from torch import Tensor

from engine.settings.optimisations import Convolution, VaeSwitches
from tests.helpers.extended import extended
from tests.helpers.vaes import EVERY, clip_of, latent_of

BF16, FP16 = torch.bfloat16, torch.float16
LIMITS = {FP16: 0.01, BF16: 0.08}  # errors of the plain variant, as a part of the values
FORMS: tuple[Convolution, ...] = ("2d", "3d")
CASES = [("seedvr2", 2, BF16), ("seedvr2", 1, FP16), ("wan 2.1", 2, BF16), ("wan 2.2", 1, FP16)]
MORE = [case for case in product(EVERY, (1, 2), (BF16, FP16)) if case not in CASES]


@pytest.mark.parametrize(("name", "latents", "dtype"), [*CASES, *extended(*MORE)], ids=str)
def test_half_precision_is_as_near_to_the_truth_as_the_plain_variant(
    name: str, latents: int, dtype: torch.dtype
) -> None:
    """Root mean squares over models of several seeds: one alone is off by a third by chance."""
    row = EVERY[name]
    errors: dict[str, list[Tensor]] = defaultdict(list)
    for seed in range(3):
        clip = clip_of(row.half, row.frames(latents), 3, 3, dtype=dtype, seed=seed)
        latent = latent_of(row.half, latents, 3, 3, dtype=dtype, seed=seed)
        plain, truth = row.plain(row.half, dtype=dtype, seed=seed), row.plain(row.half)
        weights = plain.state_dict()
        truth.load_state_dict({key: value.double() for key, value in weights.items()})
        exact = truth.encode(clip.double()), truth.decode(latent.double())
        vaes = {"plain": plain}
        for convolution in FORMS:
            switches = VaeSwitches(convolution=convolution)
            vaes[convolution] = row.code.loader.fast(
                row.half, weights, dtype=dtype, switches=switches
            )
        for form, vae in vaes.items():
            results = vae.encode(clip), vae.decode(latent)
            assert {one.dtype for one in results} == {dtype}
            for way, one, right in zip(("encode", "decode"), results, exact, strict=True):
                errors[f"{form} {way}"].append(one - right)
                errors[f"truth {way}"].append(right)
    found = {
        key: torch.stack(parts).double().square().mean().sqrt().item()
        for key, parts in errors.items()
    }
    for way in ("encode", "decode"):
        assert found[f"plain {way}"] < LIMITS[dtype] * found[f"truth {way}"]
        for form in ("2d", "3d"):
            most = 1.2 * found[f"plain {way}"]
            assert found[f"{form} {way}"] <= most, found
