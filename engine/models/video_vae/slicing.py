"""Clips through a video VAE at once or slice by slice: the same for every variant and family."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar, Protocol

import torch
from torch import Generator, Tensor

from engine.ops.conv.causal_conv import Carry

Step = Callable[[Tensor, Carry], tuple[Tensor, Carry]]

LOGVAR_LIMITS = (-30.0, 20.0)


class ClipSizes(Protocol):
    """Sizes of the clips that a VAE takes."""

    @property
    def latent_channels(self) -> int:
        """Channels of a latent."""
        ...

    @property
    def spatial_factor(self) -> int:
        """Pixels of each position of the latent, on each side."""
        ...

    @property
    def temporal_factor(self) -> int:
        """Frames of each latent but the first."""
        ...

    @property
    def slice_latents(self) -> int:
        """Latents of a slice, the first one apart, as the model was published."""
        ...


class SlicedVae(ABC):
    """A VAE that turns clips into latents and back, at once or slice by slice.

    Latents are unscaled: what the encoder gives is what the decoder takes. A variant implements
    one slice; clips of any length follow from that.

    Slices give the same as the whole clip at once: every causal convolution finds its last inputs
    in the carry. A clip is cut only when it is longer than its first slice would be.

    Attributes:
        config: Sizes of the model.
        first_frames: Frames of a clip's first latent; each later one has `temporal_factor`.
        has_variance: Whether the encoder gives a distribution, and not the latent itself.

    Memory: grows with the size of a frame and of a slice; the number of slices adds the result.
    """

    config: ClipSizes
    first_frames: ClassVar[int] = 1
    has_variance: ClassVar[bool] = True
    _slice_frames: int | None = None

    @abstractmethod
    def encode_slice(self, frames: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Encode one slice.

        Args:
            frames: [B, 3, T, H, W] in the range of the model, [-1, 1] where it has a variance, else
                [0, 1]; T = first_frames + n * temporal_factor in the first slice of a clip and
                n * temporal_factor later.
            carry: Result of the previous call; `Carry()` starts a clip. It is not changed, unless
                it was handed over.

        Returns:
            Mean and log-variance [B, 2*L, t, h, w], the latter clamped, or the latent [B, L, t, h,
            w] of a model without variance; the next carry.
        """

    @abstractmethod
    def decode_slice(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Decode one slice.

        Args:
            latent: [B, L, t, h, w], unscaled; t >= 1.
            carry: Passed as to `encode_slice`.

        Returns:
            Frames [B, 3, T, H, W], not clipped, T = temporal_factor * t, in the first slice
            temporal_factor - 1 less; the next carry.
        """

    def enable_slicing(self, frames: int | None = None) -> None:
        """Work through longer clips in slices.

        Args:
            frames: Frames of a slice, a multiple of `config.temporal_factor`; the first one takes
                those of one more latent. None takes the number that the model was published with.
        """
        frames = self.usual_slice_frames if frames is None else frames
        if frames < 1 or frames % self.config.temporal_factor:
            raise ValueError(f"slices of {frames} frames are no {self.config.temporal_factor}n")
        self._slice_frames = frames

    def disable_slicing(self) -> None:
        """Take every clip at once."""
        self._slice_frames = None

    def release(self) -> None:
        """Give back buffers that are kept between calls; the next slice takes them again."""
        return  # this variant keeps none

    @property
    def usual_slice_frames(self) -> int:
        """Frames of a slice that the model was published with."""
        return self.config.slice_latents * self.config.temporal_factor

    def posterior(self, frames: Tensor) -> Tensor:
        """Encode [B, 3, T, H, W] to what `encode_slice` gives, mean and log-variance for most.

        Raises:
            ValueError: T is not first_frames + n * temporal_factor.
        """
        return self._encoded(self.encode_slice, frames)

    def encode(self, frames: Tensor, generator: Generator | None = None) -> Tensor:
        """Encode [B, 3, T, H, W] to an unscaled latent [B, L, t, h, w].

        Args:
            frames: The clip.
            generator: None returns the mean, which the model was last tuned for. Otherwise a
                sample of the distribution, with noise drawn on the generator's device; a model
                without variance has one latent only.
        """
        if generator is None or not self.has_variance:
            return self._encoded(self._mean_of_slice, frames)
        mean, logvar = self.posterior(frames).chunk(2, dim=1)
        noise = torch.randn(
            mean.shape, generator=generator, device=generator.device, dtype=mean.dtype
        )
        return torch.addcmul(mean, torch.exp(0.5 * logvar), noise.to(mean.device))

    def _encoded(self, step: Step, frames: Tensor) -> Tensor:
        first, each = self.first_frames, self.config.temporal_factor
        later, rest = divmod(frames.shape[2] - first, each)
        if later < 0 or rest:
            raise ValueError(f"{frames.shape[2]} frames are no {first} + {each}n")
        return _through(step, frames, self._slice_frames, 1 + later, lead=first)

    def _mean_of_slice(self, frames: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """A copy of the mean, so that the log-variance of a long clip does not stay in memory."""
        posterior, carry = self.encode_slice(frames, carry)
        if not self.has_variance:
            return posterior, carry
        return posterior.chunk(2, dim=1)[0].clone(), carry

    def decode(self, latent: Tensor) -> Tensor:
        """Decode an unscaled latent [B, L, t, h, w] to frames [B, 3, T, H, W], not clipped."""
        each = self.config.temporal_factor
        size = None if self._slice_frames is None else self._slice_frames // each
        return _through(self.decode_slice, latent, size, 1 + each * (latent.shape[2] - 1))


def clamp_logvar(posterior: Tensor) -> Tensor:
    """Mean and log-variance [B, 2*L, ...] with the log-variance within its limits."""
    mean, logvar = posterior.chunk(2, dim=1)
    return torch.cat((mean, logvar.clamp(*LOGVAR_LIMITS)), dim=1)


def slices(length: int, size: int | None, *, lead: int = 1) -> Iterator[tuple[int, int]]:
    """Start and end of each slice: the first has `lead` steps more, the last may be short.

    A clip of no more than lead + size steps, or a size of None, gives one slice.

    Args:
        length: Steps in all.
        size: Steps of a slice.
        lead: Steps that the first slice has more; 0 where it does not begin a clip.
    """
    start, end = 0, length if size is None else lead + size
    while start < length:
        yield start, min(end, length)
        start, end = end, end + (size or 1)


def _through(step: Step, whole: Tensor, size: int | None, length: int, *, lead: int = 1) -> Tensor:
    """Run all slices of [B, C, T, H, W] in order into one result of `length` steps."""
    steps = whole.shape[2]
    joined: Tensor | None = None
    carry, done = Carry(), 0
    for start, end in slices(steps, size, lead=lead):
        carry = carry.handed_over(last=end == steps)
        result, carry = step(whole[:, :, start:end], carry)
        if end - start == steps:
            return result
        if joined is None:
            joined = result.new_empty((*result.shape[:2], length, *result.shape[3:]))
        joined[:, :, done : done + result.shape[2]] = result
        done += result.shape[2]
    if joined is None:
        raise ValueError("a clip without frames")
    return joined
