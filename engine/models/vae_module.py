"""A VAE as a module of torch, for Python programs: SeedVR2, Wan 2.1, Wan 2.2 and Wan 2x."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from engine.core.errors import NoUsableGpu, UnsuitableTensor
from engine.core.geometry import Size
from engine.files.formats.open_weights import open_weights
from engine.models import registry
from engine.models.identify import other_model, recognise
from engine.models.video_vae.frame_slices import as_clip
from engine.models.video_vae.runner import FastSlicedVae
from engine.models.video_vae.vae_use import InTiles

_AnyFast = FastSlicedVae[Any, Any]


def load_vae(
    path: Path, *, device: str | torch.device | None = None, dtype: torch.dtype | None = None
) -> Vae:
    """Read the VAE in a file; its content tells which one it is.

    Args:
        path: Safetensors, PyTorch or GGUF file with the names of the publishers, of ComfyUI or of
            diffusers.
        device: Device to compute on; None: a GPU that torch can use, else the CPU.
        dtype: Type to compute in; None: float16 on a GPU, float32 on a CPU.

    Raises:
        WeightsMissing, WeightsUnreadable, NotSafetensors, WeightsTruncated, WeightsDamaged,
            UnsafeWeights: There is no such file, or it is damaged or of another format.
        WrongModel: It is another model.
        MissingKeys, ExtraKeys, WrongShapes, UnknownKeys, WrongNumbers: Its tensors are not exactly
            those of the VAE.
        NoUsableGpu: A GPU was asked for that torch cannot use.
    """
    chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise NoUsableGpu("python")
    dtype = dtype or (torch.float32 if chosen.type == "cpu" else torch.float16)
    with open_weights(path) as file:
        content = recognise(file.shapes)
    for family in registry.families():
        use, vaes = family.use_of(content), family.vaes()
        if use is not None and use.kind == "vae" and vaes:
            loader = vaes[0].code.loader
            plain = loader.load(path, form="plain", device=chosen, dtype=dtype)
            return Vae(plain, loader.fast, vaes[0].code.in_tiles)
    raise other_model("not-vae", path, content)


class Vae(nn.Module):
    """A VAE with the tensor names of its publisher; behaves as torch users expect of a module.

    Frames and latents of any device and floating-point type are converted to those of the weights,
    and results are there. Inside `torch.autocast` results have its type. Latents are unscaled and
    not normalised: `encode` gives what `decode` takes.

    Without gradients, a fast variant with the same weights computes, slice by slice, so that the
    length of a clip hardly matters. Where a weight or the input requires a gradient, and gradients
    are enabled, the network computes the whole clip as it is published. Loaded weights require
    none: `requires_grad_()` makes the VAE trainable. Not for several threads at once.

    Args:
        plain: Plain variant with its weights.
        fast: Class of its fast variant.
        in_tiles: Functions that encode and decode by the fast variant in tiles.

    Attributes:
        config: Sizes of the VAE: `latent_channels`, `spatial_factor`, `temporal_factor` and others.

    Memory: the weights, and as much again for the fast variant after its first use, which `release`
    gives back; without gradients it grows with the size of a frame.
    """

    def __init__(self, plain: Any, fast: type[_AnyFast], in_tiles: InTiles) -> None:
        super().__init__()
        for name, child in plain.named_children():
            self.add_module(name, child)
        object.__setattr__(self, "_plain", plain)  # its modules are those of this one
        self._fast_type, self._in_tiles = fast, in_tiles
        self._fast: tuple[Hashable, _AnyFast] | None = None
        self.config = plain.config
        self.eval()

    def encode(
        self, frames: Tensor, generator: Generator | None = None, *, tile: int = 0
    ) -> Tensor:
        """Latents of a clip or of an image.

        Args:
            frames: Clips [B, 3, T, H, W] or images [B, 3, H, W] in [-1, 1]; T is 1 plus a multiple
                of `config.temporal_factor`, H and W are multiples of `config.spatial_factor`.
            generator: None gives the mean; otherwise a sample is drawn.
            tile: Width and height that are computed at a time at most, px; 0: whole frames.

        Returns:
            [B, L, t, h, w], or [B, L, h, w] for images.

        Raises:
            UnsuitableTensor: Its shape or type is another.
            ValueError: Tiles are too small, or gradients or a sample are wanted of them.
        """
        clips = self._encodable(frames)
        if tile and generator is not None:
            raise ValueError("tiles give the mean of a distribution, not a sample")
        if 0 < tile < max(clips.shape[3:]):
            return _alike(self._tiled(clips, tile, self._encoded), frames)
        given, vae = self._ready(clips)
        with _no_autocast(given, vae):
            return _alike(vae.encode(given, generator), frames)

    def posterior(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Distribution of the latents of a clip or of an image: a normal one for each value.

        Args:
            frames: Clips or images of `encode`.

        Returns:
            Mean and logarithm of the variance, each with the shape of the latent.

        Raises:
            UnsuitableTensor: Its shape or type is another.
        """
        given, vae = self._ready(self._encodable(frames))
        with _no_autocast(given, vae):
            mean, log_variance = vae.posterior(given).chunk(2, dim=1)
        return _alike(mean, frames), _alike(log_variance, frames)

    def decode(self, latent: Tensor, *, tile: int = 0) -> Tensor:
        """Frames of a latent, not clipped to [-1, 1].

        Args:
            latent: [B, L, t, h, w], or [B, L, h, w] of images.
            tile: Width and height of the frames that are computed at a time at most, px; 0: whole
                ones. Those of SeedVR2 are blended, clipped and rounded to 16 bits.

        Returns:
            Clips [B, 3, T, H, W], T = 1 + `config.temporal_factor` * (t - 1), or images
            [B, 3, H, W]. Those of Wan 2x are twice as large as encoded ones.

        Raises:
            UnsuitableTensor: Its shape or type is another.
            ValueError: Tiles are too small, or gradients are wanted of them.
        """
        clips = self._clips(latent, self.config.latent_channels)
        if 0 < tile < max(clips.shape[3:]) * self.config.spatial_factor * self.config.upscale:
            return _alike(self._tiled(clips, tile, self._decoded), latent)
        given, vae = self._ready(clips)
        with _no_autocast(given, vae):
            return _alike(vae.decode(given), latent)

    def forward(
        self, frames: Tensor, *, return_loss: bool = False, kl_weight: float = 0.0
    ) -> Tensor:
        """Frames through encoder and decoder.

        Args:
            frames: Clips or images of `encode`.
            return_loss: Return the mean absolute error of the result, a scalar. For Wan 2x, the
                encoder gets frames of half the size.
            kl_weight: Weight of the Kullback-Leibler divergence in that loss: the mean of all
                values of the latents, in nats, between their distribution and the standard normal
                one. Above 0 a sample is decoded in place of the mean, with random numbers of torch.

        Raises:
            ValueError: `kl_weight` without `return_loss`.
        """
        if not return_loss:
            if kl_weight:
                raise ValueError("kl_weight is a part of the loss: set return_loss=True")
            return self.decode(self.encode(frames))
        clips = self._clips(frames, 3)
        small = reduced(clips, self.config.upscale)
        if not kl_weight:
            return _mean_error(self.decode(self.encode(small)), clips)
        mean, log_variance = (part.float() for part in self.posterior(small))
        latent = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).mean()
        return _mean_error(self.decode(latent), clips) + kl_weight * divergence

    def release(self) -> None:
        """Give the memory of the fast variant back; the next call takes it again."""
        self._fast = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fast": None}

    def _tiled(
        self, clips: Tensor, tile: int, run: Callable[[_AnyFast, Tensor, Size], Tensor]
    ) -> Tensor:
        """Clips [B, C, T, H, W] one by one in tiles; the input stays where it is."""
        _, vae = self._ready(clips[:1, :, :1])
        if not isinstance(vae, FastSlicedVae):
            raise ValueError("tiles have no gradients: use torch.no_grad()")
        device, dtype = next(self.parameters()).device, vae.dtype
        with torch.no_grad(), _no_autocast(clips, vae):
            found = [run(vae, clip.unsqueeze(0).to(dtype), Size(tile, tile)) for clip in clips]
            return torch.cat([one.to(device, dtype) for one in found])

    def _encoded(self, vae: _AnyFast, clip: Tensor, tile: Size) -> Tensor:
        return self._in_tiles[0](vae, clip, tile)

    def _decoded(self, vae: _AnyFast, latent: Tensor, tile: Size) -> Tensor:
        """Frames [1, 3, T, H, W] in the VAE's dtype, on its device."""
        pieces = self._in_tiles[1](vae, latent.to(vae.device), tile)
        return as_clip(torch.cat([piece.to(vae.dtype) for piece in pieces]))

    def _encodable(self, frames: Tensor) -> Tensor:
        """Clips [B, 3, T, H, W] of sizes that the encoder takes."""
        clips = self._clips(frames, 3)
        time, space = self.config.temporal_factor, self.config.spatial_factor
        count, height, width = clips.shape[2:]
        if (count - 1) % time:
            fewer = count - (count - 1) % time
            raise UnsuitableTensor("frames", count=count, step=time, fewer=fewer, more=fewer + time)
        if height % space or width % space:
            raise UnsuitableTensor("size", size=f"{width}x{height}", factor=space)
        return clips

    def _clips(self, given: Tensor, channels: int) -> Tensor:
        """Clips [B, C, T, H, W] of clips or images."""
        is_tensor = isinstance(given, Tensor)
        is_empty = is_tensor and given.numel() == 0
        if not is_tensor or is_empty or given.ndim not in (4, 5) or given.shape[1] != channels:
            found = "x".join(map(str, given.shape)) if is_tensor else type(given).__name__
            case = "not-frames" if channels == 3 else "not-latent"
            raise UnsuitableTensor(case, found=found, channels=channels)
        if not given.is_floating_point():
            raise UnsuitableTensor("not-floating-point", found=str(given.dtype))
        return given if given.ndim == 5 else given.unsqueeze(2)

    def _ready(self, given: Tensor) -> tuple[Tensor, Any]:
        """The input as a variant takes it, and that variant."""
        weight = next(self.parameters())
        given = given.to(weight.device, weight.dtype)
        needs_gradients = given.requires_grad or any(one.requires_grad for one in self.parameters())
        if torch.is_grad_enabled() and needs_gradients:
            return given, self._plain
        kind, dtype = weight.device.type, weight.dtype
        if torch.is_autocast_enabled(kind):
            dtype = torch.get_autocast_dtype(kind)
        return given, self._fast_of(weight.device, dtype)

    def _fast_of(self, device: torch.device, dtype: torch.dtype) -> _AnyFast:
        """The fast variant of the weights as they are now."""
        key = (device, dtype, *map(_state_of, self.parameters()))
        if self._fast is None or self._fast[0] != key:
            self._fast = None  # before the memory of the next one is taken
            made = self._fast_type(self.config, self.state_dict(), device=device, dtype=dtype)
            made.enable_slicing()
            self._fast = key, made
        return self._fast[1]


def reduced(clips: Tensor, factor: int) -> Tensor:
    """[B, 3, T, H, W] -> [B, 3, T, H / factor, W / factor]."""
    if factor == 1:
        return clips
    frames = clips.transpose(1, 2).flatten(0, 1)
    small = F.interpolate(frames, scale_factor=1 / factor, mode="bicubic", antialias=True)
    return small.clamp_(-1, 1).view(len(clips), -1, *small.shape[1:]).transpose(1, 2)


def _mean_error(result: Tensor, clips: Tensor) -> Tensor:
    return (result - clips.to(result.device)).abs().mean()


def _alike(result: Tensor, given: Tensor) -> Tensor:
    """The result without time where images were given."""
    return result if given.ndim == 5 else result.squeeze(2)


def _state_of(weight: Tensor) -> Hashable:
    """Value that differs once a weight was moved, replaced or changed."""
    return weight.data_ptr(), 0 if weight.is_inference() else weight._version


def _no_autocast(given: Tensor, vae: Any) -> torch.autocast:
    """Keeps autocast out of a fast variant, whose parts have chosen their types."""
    kind = given.device.type
    enabled = torch.is_autocast_enabled(kind) and not isinstance(vae, FastSlicedVae)
    return torch.autocast(kind, dtype=torch.get_autocast_dtype(kind), enabled=enabled)
