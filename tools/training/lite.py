"""Training of Lite: images from their reduced, perhaps damaged, selves."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from engine.models.lite.files import LiteConfig
from engine.models.lite.net import LiteNet, load_lite
from tools.training.degrade import Pictures, Windows

LUMA = (0.299, 0.587, 0.114)
_FLAT_SHARE = 0.04
_ALONE_SHARE = 0.08  # of the neighbours that are left out, as at cuts
_PSNR_SHARE = 0.35  # of the steps, the last ones, in which PSNR is maximised
_LEAST_SQUARE = 1e-5  # an error of 0.8 steps of 8 bits: flat cuttings count no more than that


class LiteEnlargement:
    """Enlargement of random aligned cuttings, turned and mirrored.

    The loss is the error of luma plus a share of the error of the colours; of the last steps the
    logarithm of the squared errors of each cutting, which is its PSNR: soft pictures count as much
    as those of high contrast. Where detail is to be kept, errors of the steps between neighbouring
    px count, too, in which fine detail is as much as all else.

    Args:
        net: Float32, on the CPU.
        sources: uint8 [n, T, h, w, 3], T = 3 with the frames before and after.
        targets: uint8 [n, scale*h, scale*w, 3].
        batch: Cuttings of a step.
        patch: Side of a cutting in source px, at most that of a source.
        keeps_detail: Fine detail counts more than for PSNR.
    """

    def __init__(
        self,
        net: LiteNet,
        sources: Windows,
        targets: Pictures,
        *,
        batch: int,
        patch: int,
        keeps_detail: bool = False,
    ) -> None:
        self.net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs lack memory_format
        self._sources, self._targets = sources, targets
        self._batch, self._side = batch, min(patch, sources.shape[2])
        self._keeps_detail = keeps_detail

    @property
    def matrices(self) -> set[str]:
        """Weights of the hidden layers."""
        hidden = range(1, self.net.config.layers + 1)
        return {f"convolutions.{index}.weight" for index in hidden}

    def batch(self, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """[B, 3*frames, p, p] as the network sees them and [B, 3, s*p, s*p] in [0, 1]."""
        scale, side = self.net.config.scale, self._side
        pairs = []
        for index in rng.integers(0, len(self._sources), self._batch):
            y, x = (int(v) for v in rng.integers(0, self._sources.shape[2] - side + 1, 2))
            small = self._sources[index, :, y : y + side, x : x + side]
            rows = slice(y * scale, (y + side) * scale)
            large = self._targets[index, None, rows, x * scale : (x + side) * scale]
            if rng.random() < _FLAT_SHARE:
                small, large = _flat(rng, small, large)
            turns, mirrored = int(rng.integers(4)), bool(rng.integers(2))
            small, large = (_turned(part, turns, mirrored) for part in (small, large))
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
        luma = torch.einsum("bchw,c->bhw", error, torch.tensor(LUMA, device=error.device))
        steps = [luma.diff(dim=1), luma.diff(dim=2)] if self._keeps_detail else []
        if progress >= 1 - _PSNR_SHARE:
            squares = luma.square().mean((1, 2)) + 0.15 * error.square().mean((1, 2, 3))
            for step in steps:
                squares = squares + step.square().mean((1, 2))
            return 0.01 * (squares / _LEAST_SQUARE).log1p().mean()
        eps = 1e-3
        loss = (luma.square() + eps**2).sqrt().mean()
        loss = loss + 0.25 * (error.square() + eps**2).sqrt().mean()
        for step in steps:
            loss = loss + 0.5 * step.abs().mean()
        return loss

    def weights(self, learnt: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """All of the network."""
        return dict(learnt)


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
    """A network that starts as the bicubic base.

    Hidden layers start near the identity, the nearer the more they are, so that deep networks learn
    as well as shallow ones: a residual connection that costs nothing.
    """
    torch.manual_seed(seed)
    net = LiteNet(config)
    values = dict(net.named_parameters())
    for index in range(len(net.convolutions)):
        weight = values[f"convolutions.{index}.weight"]
        torch.nn.init.kaiming_normal_(weight)
        torch.nn.init.zeros_(values[f"convolutions.{index}.bias"])
        if 0 < index <= config.layers:
            with torch.no_grad():
                weight.mul_(config.layers**-0.5).add_(torch.nn.init.dirac_(weight.clone()))
    torch.nn.init.normal_(values[f"convolutions.{len(net.convolutions) - 1}.weight"], std=1e-3)
    return net


def started_from(path: Path, config: LiteConfig, seed: int) -> LiteNet:
    """A network that gives what a trained one gives, which may be smaller.

    Neighbouring frames and new channels do not count yet, new layers pass on what they get; with
    another scale only the last layer is new.

    Raises:
        argparse.ArgumentError: The trained network is larger.
        WeightsError: It is no network of Lite.
    """
    trained, net = load_lite(path), new_net(config, seed)
    old, wanted = trained.config, dict(net.named_parameters())
    if old.channels > config.channels or old.layers > config.layers or old.frames > config.frames:
        text = f"{path.name} is larger than the network to train"
        raise argparse.ArgumentError(None, text)
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
    error = torch.einsum("bchw,c->bhw", result - wanted, torch.tensor(LUMA))
    return float(error[:, 8:-8, 8:-8].square().mean())
