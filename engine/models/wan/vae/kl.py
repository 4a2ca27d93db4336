"""How far the latents of an encoder are from a standard normal distribution: a term of training."""

from __future__ import annotations

from torch import Tensor


def kl_divergence(moments: Tensor) -> Tensor:
    """Kullback-Leibler divergence of the latents' distributions from the standard normal one.

    0.5 * sum(mean^2 + variance - 1 - logvar) over the latent of each clip. A gradient flows
    through it, but none to log-variances that were clamped.

    Args:
        moments: [B, 2*L, t, h, w] as `SlicedVae.moments` gives them: mean, then log-variance.

    Returns:
        [B], in nats; float32 at least, as half precision cannot sum so many.
    """
    mean, logvar = (half if half.itemsize > 2 else half.float() for half in moments.chunk(2, dim=1))
    terms = mean.square() + logvar.exp() - 1 - logvar
    return 0.5 * terms.flatten(1).sum(dim=1)
