"""Train Lite weights from nothing but a seed.

    python -m tools.train_lite.train --scale 2 --form faithful --seed 1 --out DIR

draws the pool of pictures (pool.py), makes source and target pairs (degrade.py), trains and
writes `lite_x2_faithful.safetensors`. The same seed on the same kind of machine gives the same
weights up to the order of floating point sums.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.models.lite.files import LiteConfig
from engine.models.lite.net import LiteNet, load_lite
from tools.train_lite.degrade import make_pairs
from tools.train_lite.pool import open_pool

log = logging.getLogger(__name__)

LUMA = (0.299, 0.587, 0.114)
_CHECK_SEED = 900_001
_CHECK_PICTURES = 64
_FLAT_SHARE = 0.04


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How long and how fast to learn.

    Attributes:
        steps: Optimiser steps.
        batch: Cuttings per step.
        patch: Side of a cutting in source px.
        rate: Highest learning rate, reached after `warmup` steps, then a cosine to almost 0.
        squared_share: Last part of the steps, in which the squared error is minimised.
    """

    steps: int
    batch: int = 8
    patch: int = 64
    rate: float = 2e-3
    warmup: int = 200
    squared_share: float = 0.35
    ema: float = 0.999

    def rate_at(self, step: int) -> float:
        """Learning rate of one step."""
        rise = min(1.0, (step + 1) / self.warmup)
        return self.rate * rise * (0.505 + 0.495 * float(np.cos(np.pi * step / self.steps)))


def cuttings(
    sources: np.ndarray, targets: np.ndarray, scale: int, schedule: Schedule, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Random aligned cuttings, turned and mirrored: [B, 3, p, p] and [B, 3, s*p, s*p] in [0, 1]."""
    rng = np.random.default_rng([seed, 7])
    side = min(schedule.patch, sources.shape[1])
    while True:
        pairs = []
        for index in rng.integers(0, len(sources), schedule.batch):
            y, x = (int(v) for v in rng.integers(0, sources.shape[1] - side + 1, 2))
            small = sources[index, y : y + side, x : x + side]
            large = targets[index, y * scale : (y + side) * scale, x * scale : (x + side) * scale]
            if rng.random() < _FLAT_SHARE:
                small, large = _flat(rng, small, large)
            turns, mirrored = int(rng.integers(4)), bool(rng.integers(2))
            pairs.append([_turned(part, turns, mirrored) for part in (small, large)])
        smalls, larges = zip(*pairs, strict=True)
        yield _as_batch(smalls), _as_batch(larges)


def _flat(rng: np.random.Generator, *parts: np.ndarray) -> list[np.ndarray]:
    """One colour in place of every part; black and white often, as in bars and titles."""
    colour = rng.integers(0, 256, 3) if rng.random() < 0.5 else 255 * rng.integers(0, 2)
    return [np.full_like(part, colour) for part in parts]


def _turned(part: np.ndarray, turns: int, mirrored: bool) -> np.ndarray:
    part = np.rot90(part, turns)
    return part[:, ::-1] if mirrored else part


def _as_batch(parts: Sequence[np.ndarray]) -> Tensor:
    return torch.from_numpy(np.stack(parts)).permute(0, 3, 1, 2).float().div_(255)


def loss_of(result: Tensor, wanted: Tensor, *, squared: bool) -> Tensor:
    """Error of luma plus a share of the error of the colours; RGB [B, 3, h, w]."""
    error = result - wanted
    luma = torch.einsum("bchw,c->bhw", error, torch.tensor(LUMA, device=error.device))
    if squared:
        return 100 * (luma.square().mean() + 0.15 * error.square().mean())
    eps = 1e-3
    return (luma.square() + eps**2).sqrt().mean() + 0.25 * (error.square() + eps**2).sqrt().mean()


def fit(
    net: LiteNet,
    sources: np.ndarray,
    targets: np.ndarray,
    *,
    schedule: Schedule,
    seed: int,
    device: torch.device,
    interim: Callable[[LiteNet], None] | None = None,
) -> LiteNet:
    """Train in place; returns the running average of the weights as a new float32 network.

    Args:
        net: Start, float32.
        sources: uint8 [n, h, w, 3].
        targets: uint8 [n, scale*h, scale*w, 3].
        schedule: Length and rates.
        seed: Of the order of cuttings.
        device: Where to compute; the autocast dtype is bfloat16 everywhere.
        interim: Gets the average every 1000 steps.
    """
    scale, reach = net.config.scale, net.receptive_radius
    net.to(device)
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs lack memory_format
    average = {name: value.detach().clone() for name, value in net.state_dict().items()}
    optimiser = torch.optim.AdamW(net.parameters(), betas=(0.9, 0.99), weight_decay=1e-6)
    batches = cuttings(sources, targets, scale, schedule, seed)
    running = 0.0
    for step in range(schedule.steps):
        small, large = (part.to(device) for part in next(batches))
        for group in optimiser.param_groups:
            group["lr"] = schedule.rate_at(step)
        with torch.autocast(device.type, torch.bfloat16):
            result = net.inside(small)
        wanted = large[..., reach * scale : -reach * scale, reach * scale : -reach * scale]
        squared = step >= schedule.steps * (1 - schedule.squared_share)
        loss = loss_of(result.float(), wanted, squared=squared)
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimiser.step()
        keep = min(schedule.ema, (1 + step) / (10 + step))
        for name, value in net.state_dict().items():
            average[name].lerp_(value, 1 - keep)
        running = running * 0.99 + 0.01 * loss.item()
        if step % 1000 == 999:
            log.info("step %d loss %.5f", step + 1, running)
            if interim is not None:
                interim(_averaged(net, average))
    return _averaged(net, average)


def _averaged(net: LiteNet, average: dict[str, Tensor]) -> LiteNet:
    result = LiteNet(net.config)
    result.load_state_dict({name: value.cpu() for name, value in average.items()})
    return result.requires_grad_(False).eval()


def gain_over_base(net: LiteNet, sources: np.ndarray, targets: np.ndarray) -> float:
    """Mean luma PSNR of the network minus that of the plain bicubic base, in dB."""
    plain = LiteNet(net.config)
    for parameter in plain.parameters():
        torch.nn.init.zeros_(parameter)
    gains = []
    with torch.inference_mode():
        for source, target in zip(sources, targets, strict=True):
            frames, wanted = _as_batch([source]), _as_batch([target])
            errors = [_luma_error(model(frames), wanted) for model in (net, plain)]
            gains.append(10 * np.log10((errors[1] + 1e-7) / (errors[0] + 1e-7)))
    return float(np.mean(gains))


def _luma_error(result: Tensor, wanted: Tensor) -> float:
    error = torch.einsum("bchw,c->bhw", result - wanted, torch.tensor(LUMA))
    return float(error[:, 8:-8, 8:-8].square().mean())


def new_net(config: LiteConfig, seed: int) -> LiteNet:
    """A network that starts as the bicubic base."""
    torch.manual_seed(seed)
    net = LiteNet(config)
    values = dict(net.named_parameters())
    for index in range(len(net.convolutions)):
        torch.nn.init.kaiming_normal_(values[f"convolutions.{index}.weight"])
        torch.nn.init.zeros_(values[f"convolutions.{index}.bias"])
    torch.nn.init.normal_(values[f"convolutions.{len(net.convolutions) - 1}.weight"], std=1e-3)
    return net


def started_from(path: Path, config: LiteConfig, seed: int) -> LiteNet:
    """Take over the weights of a trained network; the last layer only if the scale is the same."""
    trained, net = load_lite(path), new_net(config, seed)
    wanted = config.shapes()
    same = {
        name: value
        for name, value in trained.state_dict().items()
        if wanted.get(name) == tuple(value.shape)
    }
    net.load_state_dict(same, strict=False)
    return net


def main(arguments: list[str] | None = None) -> None:
    """Draw, train, measure, write; see the head of this file."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(options.threads)
    config = LiteConfig(scale=options.scale, channels=options.channels, layers=options.layers)
    schedule = Schedule(
        steps=options.steps, rate=options.rate, batch=options.batch, patch=options.patch
    )
    pool_folder = options.pool_folder or options.out / "pool"
    parts = {}
    for name, seed, count in (
        ("train", options.seed, options.pool),
        ("check", _CHECK_SEED, _CHECK_PICTURES),
    ):
        pictures = open_pool(pool_folder, seed=seed, count=count, workers=options.threads)
        parts[name] = make_pairs(pictures, scale=options.scale, form=options.form, seed=seed)
    if options.start:
        net = started_from(options.start, config, options.seed)
    else:
        net = new_net(config, options.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"lite_x{options.scale}_{options.form}.safetensors"
    trained = fit(
        net,
        *parts["train"],
        schedule=schedule,
        seed=options.seed,
        device=device,
        interim=lambda average: _write(average, path.with_suffix(".interim"), options),
    )
    gain = gain_over_base(trained, *parts["check"])
    log.info("generated check pictures: %.3f dB above bicubic", gain)
    _write(trained, path, options)
    path.with_suffix(".interim").unlink(missing_ok=True)
    log.info("wrote %s", path)


def _write(net: LiteNet, path: Path, options: argparse.Namespace) -> None:
    metadata = {
        "model": "lite",
        "form": options.form,
        "scale": str(options.scale),
        "seed": str(options.seed),
        "steps": str(options.steps),
        "pool": str(options.pool),
        "rate": str(options.rate),
        "start": options.start.name if options.start else "random",
        "made_with": "tools.train_lite.train, generated pictures only",
    }
    tensors = {name: value.contiguous() for name, value in net.state_dict().items()}
    save_file(tensors, path, metadata=metadata)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.train_lite.train")
    parser.add_argument("--scale", type=int, choices=(2, 4), required=True)
    parser.add_argument("--form", choices=("faithful", "restore"), required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--pool", type=int, default=4096, help="pictures to draw")
    parser.add_argument("--pool-folder", type=Path, help="keep the pool here, for other runs")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="weights to start from")
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--patch", type=int, default=64, help="side of a cutting, source px")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    return parser


if __name__ == "__main__":
    main()
