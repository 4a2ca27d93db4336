"""Train Lite, or fine-tune the decoder of a Wan VAE; docs/fine-tuning.md describes both.

    python -m tools.training photographs --out DIR
    python -m tools.training lite --scale 2 --form faithful --films DIR --out DIR
    python -m tools.training wan --weights FILE --films DIR --out DIR

The same options on the same kind of machine give the same weights up to the order of floating-point
sums.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
from pathlib import Path
from subprocess import CalledProcessError

import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

from engine.core.errors import EngineError
from engine.models.lite.files import LiteConfig
from engine.models.lite.net import LiteNet
from engine.models.wan.vae.load import load_wan
from engine.models.wan.vae.plain import WanVae
from tools.training import damage, degrade
from tools.training.clips import clips_in, images_in
from tools.training.cuttings import CleanCuttings, DamagedCuttings
from tools.training.degrade import SOURCE, Pictures, Windows, damaged_pairs
from tools.training.folder import TrainingFolder
from tools.training.generated.pool import open_pool
from tools.training.lite import LiteEnlargement, gain_over_base, new_net, started_from
from tools.training.photographs import WrongLicence, write_photographs
from tools.training.trainer import PRECISIONS, Diverged, Schedule, Task, Trainer
from tools.training.wan import WanDecoding, check_clip

log = logging.getLogger(__name__)

_CHECK_SEED = 900_001
_CHECK_PICTURES = 64
_DRAWN = 4096  # pictures, where there are no others
_POOL = {"faithful": 256, "restore": 2048}  # whole images, parts of as many
_CHECK_SHARE = 16  # one of 16 clips of videos is kept for validation
_REPORTED_EVERY = 100  # steps
# How long, how often and where: a training may go on with others.
_PLACES = {"out", "pool_folder", "pairs"}
_FREE = {"command", "resume", "until", "save_every", "threads", "device", *_PLACES}


def main(arguments: list[str] | None = None) -> None:
    """Read, train, write; see the head of this file."""
    parser = _parser()
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    if getattr(options, "threads", 0):
        torch.set_num_threads(options.threads)
    try:
        {"lite": train_lite, "wan": train_wan, "photographs": get_photographs}[options.command](
            options
        )
    except (argparse.ArgumentError, Diverged, WrongLicence, CalledProcessError) as err:
        parser.error(str(err))
    except EngineError as err:
        parser.error(f"{err} {err.hint}".strip())


def train_lite(options: argparse.Namespace) -> None:
    """Train Lite, from nothing or from its weights, and measure it on drawn pictures."""
    is_clean = options.form == "faithful"
    if is_clean and (options.frames > 1 or options.pairs):
        raise argparse.ArgumentError(None, "--frames 3 and --pairs are for --form restore")
    if options.drawn is None:
        options.drawn = 0 if options.films else _DRAWN
    options.pool = options.pool or _POOL[options.form]
    folder = TrainingFolder(options.out, _about(options), resume=options.resume)
    config = LiteConfig(
        scale=options.scale, channels=options.channels, layers=options.layers, frames=options.frames
    )
    if options.start:
        net = started_from(options.start, config, options.seed)
    else:
        net = new_net(config, options.seed)
    cuttings, check = _clean(options) if is_clean else _damaged(options)
    task = LiteEnlargement(
        net,
        cuttings,
        batch=options.batch,
        patch=options.patch,
        psnr_share=options.psnr_share,
        has_structure=not is_clean,
    )
    schedule = Schedule(steps=options.steps, rate=options.rate)
    name = f"lite_x{options.scale}_{options.form}.safetensors"
    trainer = _run(task, schedule, options, folder, name)
    if check:
        trained = LiteNet(config)
        trained.load_state_dict({key: value.cpu() for key, value in trainer.average.items()})
        gain = gain_over_base(trained, *check)
        log.info("%d cuttings that were kept: %.3f dB above bicubic", len(check[0]), gain)


def train_wan(options: argparse.Namespace) -> None:
    """Fine-tune the decoder of a Wan VAE on clips of videos."""
    folder = TrainingFolder(options.out, _about(options), resume=options.resume)
    vae = load_wan(options.weights, form="plain")
    assert isinstance(vae, WanVae)
    check_clip(vae.config, frames=options.frames, side=options.side)
    clips = clips_in(
        options.films,
        frames=options.frames,
        side=options.side,
        count=options.pool,
        seed=options.seed,
    )
    kept = len(clips) // _CHECK_SHARE
    task = WanDecoding(
        vae,
        clips[kept:],
        batch=options.batch,
        edges=options.edges,
        has_checkpoints=options.checkpointing,
    )
    schedule = Schedule(steps=options.steps, rate=options.rate)
    vae.to(options.device)
    before = task.error(clips[:kept]) if kept else 0.0
    trainer = _run(task, schedule, options, folder, f"{options.weights.stem}_tuned.safetensors")
    if kept:
        vae.load_state_dict(trainer.average, strict=False)
        found = task.error(clips[:kept])
        log.info("%d clips that were kept: error %.3f of 255, before %.3f", kept, found, before)


def get_photographs(options: argparse.Namespace) -> None:
    """Get the free photographs to learn from, out of packages of Debian."""
    log.info("%d pictures in %s", write_photographs(options.out), options.out)


def _run(
    task: Task,
    schedule: Schedule,
    options: argparse.Namespace,
    folder: TrainingFolder,
    name: str,
) -> Trainer:
    """All steps that are asked for; writes weights and state now and then, and at the end."""
    trainer = Trainer(
        task,
        schedule,
        device=torch.device(options.device),
        precision=options.precision,
        seed=options.seed,
    )
    folder.restore(trainer)
    end = min(schedule.steps, options.until or schedule.steps)
    while trainer.step < end:
        record = trainer.advance()
        folder.add(record)
        if record.step % _REPORTED_EVERY == 0:
            log.info("step %d loss %.5f", record.step, record.loss)
        if record.step % options.save_every == 0 and record.step < end:
            folder.save(trainer)
    folder.save(trainer)
    path = folder.write_weights(name, task.weights(trainer.average))
    log.info("%d of %d steps, wrote %s", trainer.step, schedule.steps, path)
    return trainer


_Check = tuple[Windows, Pictures] | None
"""Sources and targets that are not learned from; None: there are too few images."""


def _clean(options: argparse.Namespace) -> tuple[CleanCuttings, _Check]:
    """Parts of whole images that are reduced, and others for validation."""
    if options.films:
        side = options.patch * options.scale
        found = images_in(options.films, side=side, count=options.pool, seed=options.seed)
        kept = found[: len(found) // _CHECK_SHARE]
        learnt = found[len(kept) :]
    else:
        learnt, kept = [], list(_drawn(options, _CHECK_SEED, _CHECK_PICTURES))
    learnt.extend(_drawn(options, options.seed, options.drawn))
    cuttings = CleanCuttings(learnt, options.scale)
    if not kept:
        return cuttings, None
    rng, others = np.random.default_rng(_CHECK_SEED), CleanCuttings(kept, options.scale)
    side = min(options.patch, others.most_side)
    drawn = (others.draw(rng, side) for _ in range(_CHECK_PICTURES))
    sources, targets = zip(*drawn, strict=True)
    return cuttings, (np.stack(sources), np.stack(targets))


def _damaged(options: argparse.Namespace) -> tuple[DamagedCuttings, _Check]:
    """Sequences that are damaged and encoded beforehand, and others for validation."""
    side = SOURCE * options.scale
    if options.films:
        count = _POOL["faithful"]
        found = images_in(options.films, side=side, count=count, seed=options.seed)
        held = len(found) // _CHECK_SHARE
        kept = _parts(found[:held], options, min(_CHECK_PICTURES, options.pool))
        learnt = _parts(found[held:], options, options.pool)
    else:
        learnt = np.empty((0, side, side, 3), np.uint8)
        kept = _drawn(options, _CHECK_SEED, _CHECK_PICTURES)
    if options.drawn:
        learnt = np.concatenate([learnt, _drawn(options, options.seed, options.drawn)])
    check = _pairs(kept, options, _CHECK_SEED) if len(kept) else None
    return DamagedCuttings(*_pairs(learnt, options, options.seed)), check


def _parts(images: list[np.ndarray], options: argparse.Namespace, count: int) -> Pictures:
    """Parts of whole images, uint8 [n, side, side, 3]."""
    side = SOURCE * options.scale
    if not images:
        return np.empty((0, side, side, 3), np.uint8)
    cuttings, rng = CleanCuttings(images, options.scale), np.random.default_rng(options.seed)
    return np.stack([cuttings.part(rng, side) for _ in range(count)])


def _drawn(options: argparse.Namespace, seed: int, count: int) -> Pictures:
    folder = options.pool_folder or options.out / "pool"
    if not count:
        return np.empty((0, 0, 0, 3), np.uint8)
    return open_pool(
        folder,
        seed=seed,
        count=count,
        side=SOURCE * options.scale,
        workers=options.threads or 1,
    )[:count]


def _pairs(pictures: Pictures, options: argparse.Namespace, seed: int) -> tuple[Windows, Pictures]:
    """Damaged sources and their targets; kept in `--pairs`, a folder, where it is named.

    Raises:
        argparse.ArgumentError: The folder has them of other images, or of another version.
    """
    path = options.pairs and options.pairs / f"x{options.scale}_restore_{seed}.safetensors"
    about = {name: str(getattr(options, name)) for name in ("films", "pool", "drawn", "seed")}
    made_by = b"".join(Path(module.__file__).read_bytes() for module in (damage, degrade))
    about["made-by"] = hashlib.sha256(made_by).hexdigest()
    if path and path.is_file():
        with safe_open(path, "np") as file:
            if file.metadata() != about:
                text = f"{path} was made of other images, or by another version"
                raise argparse.ArgumentError(None, text)
            return file.get_tensor("sources"), file.get_tensor("targets")
    sources, targets = damaged_pairs(pictures, scale=options.scale, seed=seed)
    if path:
        options.pairs.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        save_file({"sources": sources, "targets": targets}, unfinished, metadata=about)
        unfinished.replace(path)
    return sources, targets


def _about(options: argparse.Namespace) -> dict[str, str]:
    """Options that make the weights what they are; files by their names."""
    chosen = {name: value for name, value in vars(options).items() if name not in _FREE}
    named = {
        name.replace("_", "-"): value.name if isinstance(value, Path) else str(value)
        for name, value in chosen.items()
    }
    return {"model": options.command, **named, "made-with": "python -m tools.training"}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.training", description=(__doc__ or "").partition(";")[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    lite = commands.add_parser("lite", help="train the built-in model")
    lite.add_argument("--scale", type=int, choices=(2, 4), required=True)
    lite.add_argument("--form", choices=("faithful", "restore"), required=True)
    lite.add_argument("--start", type=Path, help="weights to start from")
    lite.add_argument("--films", type=Path, help="folder of films and pictures to learn from")
    lite.add_argument(
        "--pool",
        type=int,
        help="most images of it, kept in memory (default: 256); for restore parts of them (2048)",
    )
    lite.add_argument("--drawn", type=int, help="drawn pictures to learn from as well")
    lite.add_argument("--pool-folder", type=Path, help="keep drawn pictures here, for other runs")
    lite.add_argument("--pairs", type=Path, help="keep damaged pictures here, for other runs")
    lite.add_argument("--channels", type=int, default=32)
    lite.add_argument("--layers", type=int, default=4)
    lite.add_argument("--frames", type=int, choices=(1, 3), default=1, help="3: with neighbours")
    lite.add_argument("--patch", type=int, default=64, help="side of a cutting, source px")
    text = "share of the steps, the last ones, that maximise PSNR (default: 0.35)"
    lite.add_argument("--psnr-share", type=float, default=0.35, help=text)
    # CPUs without matrix units for it take up to three times as long in bfloat16.
    precision = "bfloat16" if torch.cuda.is_available() else "float32"
    _add_common(lite, steps=20_000, rate=2e-3, batch=8, precision=precision, save_every=500)
    wan = commands.add_parser("wan", help="fine-tune the decoder of a Wan VAE")
    wan.add_argument("--weights", type=Path, required=True, help="the VAE, any format of Upreel's")
    wan.add_argument("--films", type=Path, required=True, help="folder of films and pictures")
    wan.add_argument("--pool", type=int, default=256, help="most clips to learn from")
    wan.add_argument("--frames", type=int, default=5, help="of a clip, 4n + 1")
    wan.add_argument("--side", type=int, default=256, help="of its pictures, px")
    wan.add_argument("--edges", type=float, default=0.1, help="weight of steps between pixels")
    wan.add_argument(
        "--checkpointing",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="less memory, a third more time; the weights are the same",
    )
    photographs = commands.add_parser("photographs", help="get free photographs to learn from")
    photographs.add_argument("--out", type=Path, required=True, help="folder for them")
    _add_common(wan, steps=2000, rate=1e-5, batch=1, precision=precision, save_every=500)
    return parser


def _add_common(
    parser: argparse.ArgumentParser,
    *,
    steps: int,
    rate: float,
    batch: int,
    precision: str,
    save_every: int,
) -> None:
    here = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--out", type=Path, required=True, help="folder of all that is written")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--rate", type=float, default=rate, help="highest learning rate")
    parser.add_argument("--batch", type=int, default=batch)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--precision", choices=tuple(PRECISIONS), default=precision)
    parser.add_argument("--device", choices=("cpu", "cuda"), default=here)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--save-every", type=int, default=save_every, help="steps")
    parser.add_argument("--until", type=int, help="end after this step, to go on later")
    parser.add_argument("--resume", action="store_true", help="go on with the training in --out")


if __name__ == "__main__":
    main()
