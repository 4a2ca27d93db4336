"""Training of Lite: images from their reduced, perhaps damaged, selves."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.lite.files import LiteConfig
from engine.models.lite.net import LiteNet, load_lite
from tools.training.cuttings import Cuttings
from tools.training.degrade import Pictures, Windows
from tools.training.symmetry import ORDER, is_symmetric, make_symmetric

LUMA = (0.299, 0.587, 0.114)
_FLAT_SHARE = 0.04
_ALONE_SHARE = 0.08  # of the neighbours that are left out, as at cuts
_LEAST_SQUARE = 1e-5  # an error of 0.8 steps of 8 bits: flat cuttings count no more than that
_STRUCTURE = 0.2  # weight of 1 - SSIM: 0.001 of it count as much as 0.1 dB
_EDGES = 0.3  # weight of the deviation of the steepness of edges
_STRUCTURE_SIDE = 7  # px of its windows


class LiteEnlargement:
    """Enlargement of random aligned cuttings, turned and mirrored.

    The loss is the error of luma plus a share of the error of the colours; of the last steps the
    logarithm of the squared errors of each cutting, which is its PSNR: soft pictures count as much
    as those of high contrast. Where structure counts, what luma lacks of SSIM is added, in which
    faint texture counts as much as a strong one, and how much edges differ in steepness (GMSD).

    Args:
        net: Float32, on the CPU.
        cuttings: Pairs of the network's scale, with neighbours where it sees three frames.
        batch: Cuttings of a step.
        patch: Side of a cutting in source px, at most `cuttings.most_side`.
        psnr_share: Share of the steps, the last ones, in which PSNR is maximised.
        has_structure: Structure counts besides PSNR.
    """

    def __init__(
        self,
        net: LiteNet,
        cuttings: Cuttings,
        *,
        batch: int,
        patch: int,
        psnr_share: float = 0.35,
        has_structure: bool = False,
    ) -> None:
        self.net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs lack memory_format
        self._cuttings = cuttings
        self._batch, self._side = batch, min(patch, cuttings.most_side)
        self._psnr_share, self._has_structure = psnr_share, has_structure

    @property
    def matrices(self) -> set[str]:
        """Weights of the hidden layers."""
        hidden = range(1, self.net.config.layers + 1)
        return {f"convolutions.{index}.weight" for index in hidden}

    def batch(self, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """[B, 3*frames, p, p] as the network sees them and [B, 3, s*p, s*p] in [0, 1]."""
        pairs = []
        for _ in range(self._batch):
            small, large = self._cuttings.draw(rng, self._side)
            if rng.random() < _FLAT_SHARE:
                small, large = _flat(rng, small, large)
            turns, mirrored = int(rng.integers(4)), bool(rng.integers(2))
            small, large = (_turned(part, turns, mirrored) for part in (small, large[None]))
            pairs.append((self._timed(rng, small), large))
        given, wanted = zip(*pairs, strict=True)
        return self._seen(_as_batch(given)), _as_batch(wanted)[:, 0]

    def _timed(self, rng: np.random.Generator, window: np.ndarray) -> np.ndarray:
        """Forwards or backwards, sometimes without a neighbour; the middle of it for one frame."""
        middle = len(window) // 2
        if self.net.config.frames == 1:
            return window[middle : middle + 1]
        order = [0, 1, 2] if rng.random() < 0.5 else [2, 1, 0]
        order = [middle if rng.random() < _ALONE_SHARE else place for place in order]
        return window[order]

    def _seen(self, windows: Tensor) -> Tensor:
        return seen_windows(self.net, windows)

    def result(self, given: Tensor) -> Tensor:
        """[B, ..., p, p] -> [B, 3, s*(p-2r), s*(p-2r)]: what is known without extension."""
        return self.net.inside(given)

    def loss(self, result: Tensor, wanted: Tensor, progress: float) -> Tensor:
        """See the class."""
        reach = self.net.receptive_radius * self.net.config.scale
        wanted = wanted[..., reach:-reach, reach:-reach]
        error = result - wanted
        luma, wanted_luma = _luma(error), _luma(wanted)
        structure = 0.0
        if self._has_structure:
            pair = (wanted_luma + luma, wanted_luma)
            structure = _STRUCTURE * (1 - similarity(*pair).mean()) + _EDGES * edge_error(*pair)
        if progress >= 1 - self._psnr_share:
            squares = luma.square().mean((1, 2)) + 0.15 * error.square().mean((1, 2, 3))
            return structure + 0.01 * (squares / _LEAST_SQUARE).log1p().mean()
        eps = 1e-3
        loss = (luma.square() + eps**2).sqrt().mean()
        return structure + loss + 0.25 * (error.square() + eps**2).sqrt().mean()

    def weights(self, learnt: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """All of the network in float16: rounding changes PSNR by less than 0.001 dB.

        Thousands of steps leave it symmetric to 2e-5 only, which rounding would enlarge.
        """
        net = LiteNet(self.net.config)
        net.load_state_dict({name: value.cpu() for name, value in learnt.items()})
        make_symmetric(net)
        return {name: value.detach().half() for name, value in net.state_dict().items()}


def similarity(first: Tensor, second: Tensor) -> Tensor:
    """SSIM of [B, h, w] in [0, 1] in each window, [B, h-6, w-6]."""
    products = (first, second, first.square(), second.square(), first * second)
    means = F.avg_pool2d(torch.stack(products, 1), _STRUCTURE_SIDE, stride=1)
    mean, other, square, other_square, product = means.unbind(1)
    varied = (square - mean.square()).clamp_min(0) + (other_square - other.square()).clamp_min(0)
    bright, contrast = 0.01**2, 0.03**2
    alike = (2 * mean * other + bright) / (mean.square() + other.square() + bright)
    return alike * (2 * (product - mean * other) + contrast) / (varied + contrast)


def edge_error(first: Tensor, second: Tensor) -> Tensor:
    """GMSD of [B, h, w] in [0, 1], its mean: how unevenly the steepness of edges differs."""
    first, second = (_steepness(part) for part in (first, second))
    least = 170 / 255**2
    alike = (2 * first * second + least) / (first.square() + second.square() + least)
    return alike.std((1, 2)).mean()


def _steepness(luma: Tensor) -> Tensor:
    """Length of the gradient (Prewitt) of 2x2 px each: [B, h, w] -> [B, h/2-2, w/2-2]."""
    small = F.avg_pool2d(luma[:, None], 2)
    rows, columns = F.avg_pool2d(small, (3, 1), 1), F.avg_pool2d(small, (1, 3), 1)
    across = rows[..., 2:] - rows[..., :-2]
    down = columns[..., 2:, :] - columns[..., :-2, :]
    return (across.square() + down.square() + 1e-8).sqrt()[:, 0]


def _luma(colours: Tensor) -> Tensor:
    """[B, 3, h, w] -> [B, h, w]."""
    return torch.einsum("bchw,c->bhw", colours, torch.tensor(LUMA, device=colours.device))


def _flat(rng: np.random.Generator, *parts: np.ndarray) -> list[np.ndarray]:
    """One colour in place of every part; black and white often, as in bars and titles."""
    colour = rng.integers(0, 256, 3) if rng.random() < 0.5 else 255 * rng.integers(0, 2)
    return [np.full_like(part, colour) for part in parts]


def seen_windows(net: LiteNet, windows: Tensor) -> Tensor:
    """Windows [B, T, 3, h, w] as the network sees them; T = 1, or 3 where it sees as many."""
    middle = windows[:, windows.shape[1] // 2]
    return net.seen(middle, windows[:, 0], windows[:, -1])


def _turned(part: np.ndarray, turns: int, mirrored: bool) -> np.ndarray:
    part = np.rot90(part, turns, axes=(1, 2))
    return part[:, :, ::-1] if mirrored else part


def _as_batch(parts: Sequence[np.ndarray]) -> Tensor:
    """uint8 [T, h, w, 3] each -> [B, T, 3, h, w] in [0, 1]."""
    return torch.from_numpy(np.stack(parts)).permute(0, 1, 4, 2, 3).float().div_(255)


def new_net(config: LiteConfig, seed: int) -> LiteNet:
    """A symmetric network that starts as the bicubic base.

    Hidden layers start near the identity, the nearer the more they are, so that deep networks learn
    as well as shallow ones: a residual connection that costs nothing.

    Raises:
        argparse.ArgumentError: The channels are no multiple of `ORDER`.
    """
    if config.channels % ORDER:
        raise argparse.ArgumentError(None, f"--channels: a multiple of {ORDER} is needed")
    torch.manual_seed(seed)
    net = LiteNet(config)
    values = dict(net.named_parameters())
    for index in range(len(net.convolutions)):
        weight = values[f"convolutions.{index}.weight"]
        torch.nn.init.kaiming_normal_(weight)
        torch.nn.init.zeros_(values[f"convolutions.{index}.bias"])
        with torch.no_grad():
            weight.mul_(ORDER**0.5)  # means over all ways are as much smaller
            if 0 < index <= config.layers:
                weight.mul_(config.layers**-0.5).add_(torch.nn.init.dirac_(weight.clone()))
    torch.nn.init.normal_(values[f"convolutions.{len(net.convolutions) - 1}.weight"], std=1e-3)
    make_symmetric(net)
    return net


def started_from(path: Path, config: LiteConfig, seed: int) -> LiteNet:
    """A network that gives what a trained one gives, which may be smaller.

    Neighbouring frames and new channels do not count yet, new layers pass on what they get; with
    another scale only the last layer is new.

    Raises:
        argparse.ArgumentError: The trained network is larger, or not symmetric.
        WeightsError: It is no network of Lite.
    """
    trained, net = load_lite(path), new_net(config, seed)
    old, wanted = trained.config, dict(net.named_parameters())
    if old.channels > config.channels or old.layers > config.layers or old.frames > config.frames:
        text = f"{path.name} is larger than the network to train"
        raise argparse.ArgumentError(None, text)
    if not is_symmetric(trained):
        raise argparse.ArgumentError(None, f"{path.name} does not turn with its picture")
    kept = dict(trained.named_parameters())
    with torch.no_grad():
        for index in range(config.layers + 2):
            weight, bias = (wanted[f"convolutions.{index}.{kind}"] for kind in ("weight", "bias"))
            is_last, is_new = index > config.layers, old.layers < index <= config.layers
            if is_last and old.scale != config.scale:
                continue
            rows = len(bias) if is_last else old.channels
            weight[:rows] = 0
            bias[:rows] = 0
            if is_new:
                torch.nn.init.dirac_(weight[:rows])
            else:
                place = f"convolutions.{old.layers + 1 if is_last else index}"
                known = kept[f"{place}.weight"]
                weight[:rows, : known.shape[1]] = known
                bias[:rows] = kept[f"{place}.bias"]
    return net


def gain_over_base(net: LiteNet, sources: Windows, targets: Pictures) -> float:
    """Mean luma PSNR of the network minus that of the plain bicubic base, in dB."""
    plain = LiteNet(net.config)
    for parameter in plain.parameters():
        torch.nn.init.zeros_(parameter)
    gains = []
    with torch.inference_mode():
        for source, target in zip(sources, targets, strict=True):
            windows, wanted = _as_batch([source]), _as_batch([target[None]])[:, 0]
            before, frame, after = windows[:, 0], windows[:, len(source) // 2], windows[:, -1]
            errors = [_luma_error(model(frame, before, after), wanted) for model in (net, plain)]
            gains.append(10 * np.log10((errors[1] + 1e-7) / (errors[0] + 1e-7)))
    return float(np.mean(gains))


def _luma_error(result: Tensor, wanted: Tensor) -> float:
    error = _luma(result - wanted)
    return float(error[:, 8:-8, 8:-8].square().mean())
