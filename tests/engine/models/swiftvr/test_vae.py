"""The autoencoder of SwiftVR: reach, lengths, operations; the rest is in `vae_contract`."""

from __future__ import annotations

import pytest
from torch import Tensor

from engine.core.geometry import Size
from engine.models.swiftvr.vae.config import REAE
from engine.models.swiftvr.vae.plain import Reae
from engine.models.video_vae.measuring import Valueless
from engine.models.video_vae.vae_use import Piece, VaeCode, VaeUse
from engine.ops.conv.causal_conv import Carry
from engine.settings.optimisations import VaeSwitches
from tests.helpers.seedvr2 import random_frames
from tests.helpers.swiftvr import tiny_reae


@pytest.fixture(scope="module")
def plain() -> Reae:
    return tiny_reae()


def clip(frames: int, *, batch: int = 1) -> Tensor:
    return (random_frames(batch, 3, frames, 16, 48) + 1) / 2


def latent(plain: Reae, steps: int, *, batch: int = 1) -> Tensor:
    return 4 * random_frames(batch, plain.config.latent_channels, steps, 2, 1, seed=3)


def test_a_result_depends_on_eight_latents_before_it_and_no_more(plain: Reae) -> None:
    """Latent k sees frames 4k - 30 to 4k + 3; frame r, before three are dropped, 8 latents."""
    frames, steps = clip(64), latent(plain, 16)
    encoded, decoded = plain.encode(frames), plain.decode(steps)
    for at in (0, 33, 34):
        changed = frames.clone()
        changed[:, :, at] += 0.5
        differs = (plain.encode(changed) != encoded).any(dim=(0, 1, 3, 4)).nonzero().flatten()
        assert differs.tolist() == [k for k in range(16) if 4 * k - 30 <= at <= 4 * k + 3]
    changed = steps.clone()
    changed[:, :, 5] += 0.5
    differs = (plain.decode(changed) != decoded).any(dim=(0, 1, 3, 4)).nonzero().flatten()
    assert differs.tolist() == [r - 3 for r in range(3, 64) if 20 <= r < 20 + 34]


def test_only_whole_latents_are_encoded(plain: Reae) -> None:
    with pytest.raises(ValueError, match=r"5 frames are no 4 \+ 4n"):
        plain.encode(clip(5))
    with pytest.raises(ValueError, match=r"3 frames"):
        plain.encode(clip(3))


@pytest.mark.extended
@pytest.mark.parametrize(("folds", "decoded"), [(True, (0.213, 0.254)), (False, (0.248, 0.290))])
def test_operations_and_carries_of_the_published_size(
    folds: bool, decoded: tuple[float, float]
) -> None:
    """MFLOP for a pixel of a frame, and values that are kept for one: docs/vae-folds.md."""
    clip = Piece(channels=3, factor=1, first=4, later=4)
    steps = Piece(channels=REAE.latent_channels, factor=REAE.spatial_factor, first=1, later=1)
    pieces = {"encode_slice": clip, "decode_slice": steps}
    code = VaeCode("engine.models.swiftvr.load", lambda *_: pieces, lambda _: {})
    switches = VaeSwitches(upsampler_fold=folds)
    use = VaeUse(dtype="float16", device="cuda", switches=switches, slice_frames=4)
    frame = Size(1920, 1088)
    expected = {"encode_slice": ((0.036, 0.041), 15.75), "decode_slice": (decoded, 42.0)}
    with Valueless(code, REAE, use) as measured:
        for call, (operations, kept) in expected.items():
            carry = Carry()
            for count in operations:
                before = measured.meter.convolutions
                given = measured.given(pieces[call], frame, pieces[call].later)
                carry = getattr(measured.fast, call)(given, carry.handed_over())[1]
                made = measured.meter.convolutions - before
                assert made / (4e6 * frame.pixels) == pytest.approx(count, abs=5e-4)
            assert carry.bytes_held / 2 == pytest.approx(kept * frame.pixels, rel=1e-3)
