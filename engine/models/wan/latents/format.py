"""Files of latents of Wan 2.1 and 2.2 as ComfyUI saves them: interface for the rest of the engine.

Loads no torch before a VAE is loaded.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from engine.core.geometry import Size
from engine.hardware.budget import PROGRAM_BYTES, Budget
from engine.models.latents import (
    Check,
    EncodeRoom,
    Guess,
    LatentEncoding,
    LatentFormat,
    LatentHeader,
)
from engine.models.planning.search import MemoryRequirement, fits, next_tile, tile_of
from engine.models.wan import files
from engine.models.wan.latents.file import SUFFIX, LatentFile, examined
from engine.models.wan.latents.spaces import MODELS, TEMPORAL_FACTOR
from engine.models.wan.planning.requirements import (
    decode_needs,
    decode_work,
    encode_needs,
    padded_size,
    vae_dtype,
)
from engine.models.wan.planning.search import least_edge
from engine.models.wan.planning.vae_memory import Pass
from engine.protocol.plan import LatentPlan, WeightsPlan
from engine.settings.optimisations import VaeSwitches
from engine.settings.schema import JobSettings

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.latents import LatentDecoder, LatentEncoder


class WanLatents(LatentFormat):
    """ComfyUI's .latent, 16 channels (Wan 2.1, Qwen-Image) or 48 (Wan 2.2 5B)."""

    suffix = SUFFIX
    titles: ClassVar[dict[str, str]] = {model: space.title for model, space in MODELS.items()}
    rates: ClassVar[dict[str, Fraction]] = {model: space.rate for model, space in MODELS.items()}
    frames_per_latent = TEMPORAL_FACTOR
    fold_seconds = files.FOLD_S

    def header(self, path: Path) -> LatentHeader:
        """The header alone."""
        with LatentFile(path) as file:
            return file.header

    def examined(self, path: Path) -> tuple[LatentHeader, Guess]:
        """Header and guess."""
        return examined(path)

    # what is planned

    def weights(self, model: str, own: str = "") -> WeightsPlan:
        """The file of a VAE."""
        return files.files_of_wan(model, own).vae

    def choose(
        self, header: LatentHeader, settings: JobSettings, budget: Budget, device: str
    ) -> LatentPlan:
        """The largest tiles that fit, unless the user chose some."""
        found = files.files_of_wan(header.model, settings.latent_vae)
        least = least_edge(found.config)
        edge = max(settings.decode_tile, least) if settings.decode_tile else 0
        plan = LatentPlan(
            vae=found.vae,
            model=header.model,
            normalised=False,
            device=device,
            dtype=vae_dtype("auto", device),
        )
        while not fits(self.needs(plan, header.padded), device, budget, PROGRAM_BYTES):
            smaller = self.smaller(plan, header.padded)
            if smaller is None:
                break
            plan = smaller
        return replace(
            plan,
            dtype=vae_dtype(settings.vae_precision, device),
            decode_tile=tile_of(edge, header.padded) or plan.decode_tile,
        )

    def smaller(self, plan: LatentPlan, padded: Size) -> LatentPlan | None:
        """The same in smaller tiles; None at the minimum."""
        least = least_edge(files.wan_config(plan.vae, plan.model))
        tile = next_tile(plan.decode_tile, padded, least)
        return None if tile is None else replace(plan, decode_tile=tile)

    def needs(self, plan: LatentPlan, size: Size) -> MemoryRequirement:
        """Bytes of decoding."""
        return decode_needs(_decoding(plan, size))

    def operations(self, plan: LatentPlan, size: Size, frames: int) -> float:
        """Floating-point operations of decoding."""
        return frames * decode_work(_decoding(plan, size))

    # decoding

    def decoder(self, plan: LatentPlan, switches: VaeSwitches) -> LatentDecoder:
        """The VAE of a plan."""
        from engine.models.wan.latents.vae import WanLatentDecoder

        return WanLatentDecoder(plan, switches)

    def first_frames(
        self, path: Path, vae: WeightsPlan, most_pixels: int
    ) -> tuple[Tensor, Tensor, bool]:
        """The first frame in both readings."""
        from engine.models.wan.latents.vae import first_frames

        with LatentFile(path) as file:
            return first_frames(file, vae, most_pixels)

    # encoding

    def padded(self, model: str, size: Size) -> Size:
        """A multiple of the pixels of a position."""
        step = MODELS[model].factor
        return Size(-(-size.width // step) * step, -(-size.height // step) * step)

    def encoding(
        self, model: str, vae: WeightsPlan, padded: Size, settings: JobSettings, room: EncodeRoom
    ) -> LatentEncoding:
        """The largest tiles that fit, unless the user chose some."""
        plan = LatentEncoding(
            vae=vae,
            model=model,
            padded=padded,
            normalised=settings.latents == "normalised",
            device=room.device,
            dtype=vae_dtype("auto", room.device),
            tile=None,
            switches=VaeSwitches(),
        )
        while not fits(self.encode_needs(plan), room.device, room.budget, PROGRAM_BYTES):
            smaller = self.smaller_encoding(plan)
            if smaller is None:
                break
            plan = smaller
        return replace(
            plan,
            dtype=vae_dtype(settings.vae_precision, room.device),
            tile=tile_of(settings.encode_tile, padded) or plan.tile,
            switches=room.switches,
        )

    def smaller_encoding(self, plan: LatentEncoding) -> LatentEncoding | None:
        """The same in smaller tiles; None at the minimum."""
        tile = next_tile(plan.tile, plan.padded)
        return None if tile is None else replace(plan, tile=tile)

    def encode_needs(self, plan: LatentEncoding) -> MemoryRequirement:
        """Bytes of encoding."""
        config = files.wan_config(plan.vae, plan.model)
        return encode_needs(
            Pass(
                config=config,
                frame=padded_size(config, plan.padded),
                device=plan.device,
                dtype=plan.dtype,
                tile=plan.tile,
            )
        )

    def encoder(self, plan: LatentEncoding, path: Path, check: Check) -> LatentEncoder:
        """The VAE of a plan, and the file that it writes."""
        from engine.models.wan.latents.vae import WanLatentEncoder

        return WanLatentEncoder(plan, path, check)


def _decoding(plan: LatentPlan, size: Size) -> Pass:
    config = files.wan_config(plan.vae, plan.model)
    return Pass(
        config=config,
        frame=padded_size(config, size),
        device=plan.device,
        dtype=plan.dtype,
        tile=plan.decode_tile,
    )
