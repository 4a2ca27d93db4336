"""Files of latents of Wan 2.1 and 2.2 as ComfyUI saves them: interface for the rest of the engine.

Loads no torch before a VAE is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from engine.core.geometry import Size
from engine.hardware.budget import Budget
from engine.models import overflow
from engine.models.latents import Check, Guess, LatentFilm, LatentFormat, LatentHeader
from engine.models.planning.candidates import tile_of
from engine.models.wan import files
from engine.models.wan.candidates import least_edge
from engine.models.wan.latents.file import SUFFIX, LatentFile, examined
from engine.models.wan.latents.spaces import MODELS, TEMPORAL_FACTOR
from engine.models.wan.plan import WanDecodePlan, WanEncodePlan
from engine.protocol.plan import LatentPlan, WeightsPlan, WorkPlan
from engine.settings.schema import JobSettings

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.upscalers import Watch


class WanLatents(LatentFormat):
    """ComfyUI's .latent, 16 channels (Wan 2.1, Qwen-Image) or 48 (Wan 2.2 5B)."""

    suffix = SUFFIX
    titles: ClassVar[dict[str, str]] = {model: space.title for model, space in MODELS.items()}
    rates: ClassVar[dict[str, Fraction]] = {model: space.rate for model, space in MODELS.items()}
    frames_per_latent = TEMPORAL_FACTOR

    def header(self, path: Path) -> LatentHeader:
        """The header alone."""
        with LatentFile(path) as file:
            return file.header

    def examined(self, path: Path) -> tuple[LatentHeader, Guess]:
        """Header and guess."""
        return examined(path)

    def weights(self, model: str, own: str = "") -> WeightsPlan:
        """The file of a VAE."""
        return files.files_of_wan(model, own).vae

    # decoding

    def choose(
        self, header: LatentHeader, settings: JobSettings, device: str, budget: Budget
    ) -> LatentPlan:
        """Whole frames, unless the user chose tiles."""
        found = files.files_of_wan(header.model, settings.latent_vae)
        least = least_edge(found.config)
        return LatentPlan(
            vae=found.vae,
            model=header.model,
            normalised=False,
            device=device,
            dtype=overflow.vae_dtype(
                settings.vae_precision, device, found.vae, has_bf16=budget.gpu_has_bf16
            ),
            decode_tile=tile_of(settings.decode_tile, header.padded, least),
            fp16_sums=not overflow.overflowed(found.vae),
        )

    def decoding(self, latent: LatentPlan, size: Size, work: WorkPlan) -> WanDecodePlan:
        """The plan of a VAE that only decodes."""
        return WanDecodePlan(
            model=latent.model,
            device=latent.device,
            dtype=latent.dtype,
            threads=work.threads,
            switches=work.switches if latent.fp16_sums else overflow.without_sums(work.switches),
            vae=latent.vae,
            size=size,
            padded=self.padded(latent.model, size),
            factor=1,
            decode_tile=latent.decode_tile,
            decode_at_once=latent.at_once,
            warm_up=latent.warm_up,
            parks=latent.parks,
        )

    def planned(self, latent: LatentPlan, decoding: WorkPlan) -> LatentPlan:
        """The record with all that may differ between plans of one file."""
        assert isinstance(decoding, WanDecodePlan)
        return replace(
            latent,
            dtype=decoding.dtype,
            decode_tile=decoding.decode_tile,
            at_once=decoding.decode_at_once,
            warm_up=decoding.warm_up,
            parks=decoding.parks,
            fp16_sums=decoding.switches.vae.fp16_sums,
        )

    def decode(
        self, path: Path, decoding: WorkPlan, *, normalised: bool, watch: Watch, check: Check
    ) -> Generator[Tensor, None, None]:
        """All frames of a file."""
        from engine.models.wan.latents.vae import decode

        assert isinstance(decoding, WanDecodePlan)
        return decode(path, decoding, normalised, watch, check)

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
        self,
        model: str,
        vae: WeightsPlan,
        size: Size,
        settings: JobSettings,
        device: str,
        budget: Budget,
    ) -> WanEncodePlan:
        """Whole frames, unless the user chose tiles."""
        padded, has_bf16 = self.padded(model, size), budget.gpu_has_bf16
        return WanEncodePlan(
            model=model,
            device=device,
            dtype=overflow.vae_dtype(settings.vae_precision, device, vae, has_bf16=has_bf16),
            vae=vae,
            size=size,
            padded=padded,
            factor=1,
            encode_tile=tile_of(settings.encode_tile, padded),
        )

    def encode(
        self,
        path: Path,
        encoding: WorkPlan,
        slices: Iterable[tuple[Tensor, bool]],
        film: Callable[[], LatentFilm],
        *,
        normalised: bool,
        check: Check,
    ) -> tuple[int, int]:
        """A whole file."""
        from engine.models.wan.latents.vae import encode

        assert isinstance(encoding, WanEncodePlan)
        return encode(path, encoding, slices, film, is_normalised=normalised, check=check)
