"""Memory of very small VAEs, without measuring them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from engine.models.seedvr2 import requirements as seedvr2
from engine.models.seedvr2 import vae_memory as seedvr2_vae
from engine.models.seedvr2.vae.config import VAE
from engine.models.swiftvr import requirements as swiftvr
from engine.models.swiftvr.vae.config import REAE
from engine.models.video_vae import measured_memory
from engine.models.video_vae.vae_use import UseMemory, VaeUse
from engine.models.wan import requirements as wan
from engine.models.wan import vae_memory as wan_vae
from engine.models.wan.vae.config import WAN2X, WAN22

_NARROWER = 16  # times as narrow as the published one may a VAE be, and more
_KEPT = (
    measured_memory._weights,
    *(seedvr2.needs, seedvr2_vae.encoding, seedvr2_vae.decoding),
    *(wan.needs, wan_vae.encode_way, wan_vae.decode_way),
    swiftvr.needs,
)


def _kind(config: Any) -> tuple[type, str]:
    return type(config), getattr(config, "layout", "")


@contextmanager
def figures_of_published_vaes() -> Iterator[None]:
    """Inside, small VAEs are planned with figures of the table: to measure one takes a second.

    For jobs whose memory is not looked at.
    """
    stored = measured_memory._stored
    published = {_kind(one): one for one in (VAE, REAE, WAN2X, WAN22)}

    @cache
    def of_published(config: Any, use: VaeUse) -> UseMemory | None:
        found = stored(published[_kind(config)], use.usual)
        return None if found is None else replace(found, weights=found.weights // _NARROWER**2)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measured_memory, "_stored", of_published)
        _forget()
        yield
    _forget()


def _forget() -> None:
    for one in _KEPT:
        one.cache_clear()
