"""Files of a training in its folder: a state to go on from, a line for each step, a curve."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from tools.training.loss_curve import draw_loss_curve
from tools.training.trainer import StepRecord, Trainer

STATE, STEPS, CURVE = "training.pt", "steps.jsonl", "loss.png"


class TrainingFolder:
    """Keeps the state of a training, and what its steps showed.

    Args:
        path: Made where it is not there.
        about: Options that must be the same where a training goes on.
        resume: Go on with the training that the folder has.

    Raises:
        argparse.ArgumentError: The folder has a training that would be lost, or none to go on with,
            or one with other options.
    """

    def __init__(self, path: Path, about: Mapping[str, str], *, resume: bool) -> None:
        self.path, self._about = path, dict(about)
        self._state: dict[str, Any] = {}
        self._records: list[StepRecord] = []
        if resume:
            self._state = self._read()
        elif (path / STATE).exists():
            text = (
                f"{path} has a training: --resume goes on with it, another --out begins a new one"
            )
            raise argparse.ArgumentError(None, text)
        path.mkdir(parents=True, exist_ok=True)

    def _read(self) -> dict[str, Any]:
        path = self.path / STATE
        if not path.is_file():
            raise argparse.ArgumentError(None, f"{self.path} has no training to go on with")
        state = dict(torch.load(path, map_location="cpu", weights_only=True))
        before = state["about"]
        other = [name for name, value in self._about.items() if before.get(name) != value]
        if other:
            changes = ", ".join(f"--{n} {before.get(n)} became {self._about[n]}" for n in other)
            raise argparse.ArgumentError(None, f"the training has other options: {changes}")
        return state

    def restore(self, trainer: Trainer) -> None:
        """Put a trainer where the last one of this folder was; of a new training nothing."""
        if not self._state:
            return
        trainer.restore(self._state)
        lines = (self.path / STEPS).read_text("utf-8").splitlines()[: trainer.step]
        self._records = [StepRecord(**json.loads(line)) for line in lines]
        self._state = {}

    def add(self, record: StepRecord) -> None:
        """Note what a step showed."""
        self._records.append(record)

    def save(self, trainer: Trainer) -> None:
        """Write state, steps and curve; a program that is killed meanwhile leaves the old state."""
        lines = [json.dumps(asdict(record)) + "\n" for record in self._records]
        (self.path / STEPS).write_text("".join(lines), encoding="utf-8")
        draw_loss_curve([record.loss for record in self._records]).save(self.path / CURVE)
        unfinished = self.path / f"{STATE}.part"
        torch.save({"about": self._about, **trainer.state()}, unfinished)
        unfinished.replace(self.path / STATE)

    def write_weights(self, name: str, weights: Mapping[str, Tensor]) -> Path:
        """Write a safetensors file with the options of the training; replaced when it is whole."""
        path, unfinished = self.path / name, self.path / f"{name}.part"
        tensors = {key: value.cpu().contiguous() for key, value in weights.items()}
        save_file(tensors, unfinished, metadata=self._about)
        unfinished.replace(path)
        return path
