"""Transfers against their standards, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from engine.ops.colour.spaces import from_light, to_light

Array = NDArray[np.float64]
KNOWN = {  # code value and light, from the standards or by hand
    "bt709": (0.5, 0.5**2.4),
    "": (0.5, 0.5**2.4),
    "bt470m": (0.5, 0.5**2.2),
    "smpte428": (0.5, 0.5**2.6),
    "iec61966-2-1": (0.5, 0.21404114),
    "smpte2084": (0.50807842, 0.01),  # 100 of 10,000 cd/m2
    "arib-std-b67": (0.75, 0.26496256),
    "linear": (0.5, 0.5),
}


def srgb(values: Array) -> Array:
    return np.where(values > 0.04045, ((values + 0.055) / 1.055) ** 2.4, values / 12.92)


def pq(values: Array) -> Array:
    power = values ** (32 / 2523)
    above = np.maximum(power - 3424 / 4096, 0)
    return (above / (2413 / 128 - 2392 / 128 * power)) ** (16384 / 2610)


def hlg(values: Array) -> Array:
    a = 0.17883277
    b, c = 1 - 4 * a, 0.5 - a * np.log(4 * a)
    return np.where(values > 0.5, (np.exp((values - c) / a) + b) / 12, values**2 / 3)


CURVES = {"iec61966-2-1": srgb, "smpte2084": pq, "arib-std-b67": hlg}


@pytest.mark.parametrize("transfer", KNOWN)
def test_a_known_value_has_its_light_and_comes_back(transfer: str) -> None:
    code, light = KNOWN[transfer]
    assert float(to_light(torch.tensor([code]), transfer)) == pytest.approx(light, rel=2e-5)
    assert float(from_light(torch.tensor([light]), transfer)) == pytest.approx(code, rel=2e-5)


@pytest.mark.parametrize("transfer", KNOWN)
def test_all_values_come_back_those_outside_of_the_range_too(transfer: str) -> None:
    values = torch.linspace(-0.1, 1.1, 2401)
    light = to_light(values, transfer)
    assert (light.diff() > 0).all(), "a transfer rises everywhere"
    torch.testing.assert_close(from_light(light, transfer), values, atol=2e-5, rtol=0)
    black = torch.zeros(1)
    assert to_light(black, transfer) == 0
    assert from_light(black, transfer) < 1e-6  # PQ has no code value for no light at all


@pytest.mark.parametrize("transfer", CURVES)
def test_curves_are_those_of_the_standards(transfer: str) -> None:
    values = np.linspace(0, 1.05, 1000)
    found = to_light(torch.from_numpy(values).float(), transfer).numpy()
    np.testing.assert_allclose(found, CURVES[transfer](values), rtol=1e-4, atol=1e-7)
