"""The one loop that learns: mixed precision, limited gradients, averages, a whole state."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from tools.training.muon import Muon

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


_WARMUP = 200  # steps


class Diverged(ArithmeticError):
    """The loss is infinite or NaN, and lower steps cannot help."""


class Task(Protocol):
    """A network to train, with its data and its loss."""

    @property
    def net(self) -> nn.Module:
        """The network; its parameters that need gradients are trained."""
        ...

    @property
    def matrices(self) -> Collection[str]:
        """Names of the parameters that Muon trains; AdamW trains the others."""
        ...

    def batch(self, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Inputs and targets on the CPU; drawn by `rng` alone."""
        ...

    def result(self, given: Tensor) -> Tensor:
        """Output of the network, in mixed precision."""
        ...

    def loss(self, result: Tensor, wanted: Tensor, progress: float) -> Tensor:
        """Loss of a result in float32 against the target, after a share of all steps."""
        ...

    def weights(self, learnt: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Everything that a file of the network needs, with these weights of what is learnt."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Number of steps and learning rate.

    Attributes:
        steps: Optimiser steps.
        rate: Highest learning rate, reached after a tenth of the steps, or 200 of them, if that is
            sooner; then a cosine to almost 0.
        longest: Length that gradients are cut to.
        average: Share that the running average of the weights keeps in a step, later on.
    """

    steps: int
    rate: float
    longest: float = 0.5
    average: float = 0.999

    def rate_at(self, step: int) -> float:
        """Learning rate of one step."""
        rise = min(1.0, (step + 1) / min(_WARMUP, max(1, self.steps // 10)))
        return self.rate * rise * (0.505 + 0.495 * math.cos(math.pi * step / self.steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """Measurements of a step.

    Attributes:
        step: Steps done, this one included.
        loss: Before it.
        rate: Its learning rate.
        scale: Factor of the loss, so that gradients in float16 do not become 0.
    """

    step: int
    loss: float
    rate: float
    scale: float


class Trainer:
    """Learns a task step by step.

    A step depends on the state and on nothing else: a trainer that takes over the state of another
    goes on as that one would have, on a CPU bit for bit.

    Args:
        task: Task to train; its network goes to the device.
        schedule: Length and rates.
        device: Device to compute on.
        precision: A name in `PRECISIONS`; weights stay in float32. With float16 the loss is
            scaled, and a step whose gradients are too large for it is left out.
        seed: Seed of the drawing.
    """

    def __init__(
        self,
        task: Task,
        schedule: Schedule,
        *,
        device: torch.device,
        precision: str = "float32",
        seed: int = 1,
    ) -> None:
        self.task, self.schedule = task, schedule
        self.step = 0
        self._device, self._dtype = device, PRECISIONS[precision]
        task.net.to(device)
        parameters = task.net.named_parameters()
        self._learnt = {name: value for name, value in parameters if value.requires_grad}
        self.average = {name: value.detach().clone() for name, value in self._learnt.items()}
        self._optimisers = list(self._made_optimisers())
        self._scaler = torch.amp.GradScaler(device.type, enabled=self._dtype is torch.float16)
        self._rng = np.random.default_rng([seed, 7])

    def _made_optimisers(self) -> Iterator[torch.optim.Optimizer]:
        rate = self.schedule.rate
        matrices = [value for name, value in self._learnt.items() if name in self.task.matrices]
        others = [value for name, value in self._learnt.items() if name not in self.task.matrices]
        if matrices:
            yield Muon(matrices, lr=rate)
        yield torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.99), weight_decay=1e-6)

    def advance(self) -> StepRecord:
        """Take a step.

        Raises:
            Diverged: Of no use any more; the state is the one after the step.
        """
        rate, scale = self.schedule.rate_at(self.step), self._scaler.get_scale()
        for group in (group for one in self._optimisers for group in one.param_groups):
            group["lr"] = rate
        loss = self._loss()
        for optimiser in self._optimisers:
            optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(self._scaler.scale(loss))
        for optimiser in self._optimisers:
            self._scaler.unscale_(optimiser)
        length = nn.utils.clip_grad_norm_(self._learnt.values(), self.schedule.longest)
        if length.isfinite() or not self._scaler.is_enabled():  # both optimisers, or none
            for optimiser in self._optimisers:
                self._scaler.step(optimiser)
        self._scaler.update()
        self._take_average()
        self.step += 1
        value = loss.item()
        if not math.isfinite(value) and self._scaler.get_scale() <= 1:
            raise Diverged(f"the loss of step {self.step} is {value}: try a lower rate")
        return StepRecord(step=self.step, loss=value, rate=rate, scale=scale)

    def _loss(self) -> Tensor:
        given, wanted = (part.to(self._device) for part in self.task.batch(self._rng))
        is_mixed = self._dtype is not torch.float32
        with torch.autocast(self._device.type, self._dtype, enabled=is_mixed):
            result = self.task.result(given)
        return self.task.loss(result.float(), wanted, self.step / self.schedule.steps)

    def _take_average(self) -> None:
        kept = min(self.schedule.average, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for name, value in self._learnt.items():
                self.average[name].lerp_(value, 1 - kept)

    def state(self) -> dict[str, Any]:
        """Everything that the next steps depend on, for `torch.save`; of tensors no copies."""
        return {
            "step": self.step,
            "weights": {name: value.detach() for name, value in self._learnt.items()},
            "average": self.average,
            "optimisers": [optimiser.state_dict() for optimiser in self._optimisers],
            "scaler": self._scaler.state_dict(),
            "generator": json.dumps(self._rng.bit_generator.state),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state of a trainer that was made alike."""
        self.step = state["step"]
        with torch.no_grad():
            for name, value in self._learnt.items():
                value.copy_(state["weights"][name])
                self.average[name].copy_(state["average"][name])
        for optimiser, kept in zip(self._optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(kept)
        self._scaler.load_state_dict(state["scaler"])
        self._rng.bit_generator.state = json.loads(state["generator"])
