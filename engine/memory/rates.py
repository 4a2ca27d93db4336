"""How fast this machine is: measured costs of a pixel, corrected by every finished job."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from engine import paths

# CPU seconds for a million pixels on one core of a 2024 server processor; `bench pipeline` measures
# them, and every finished job corrects the sum for its own machine.
READ = 0.013  # decode and YUV to RGB, per source Mpx
LITE = {2: 1.2, 4: 2.3}  # Lite in float32, per source Mpx
LITE_BF16 = {2: 0.56, 4: 1.1}  # where the processor multiplies bfloat16
RESTORE = 0.015  # exact size and RGB to YUV, per output Mpx
VERIFY = 0.009  # per output Mpx
ENCODE = {  # per output Mpx
    "libx264": 0.036,
    "libx265": 0.105,
    "libsvtav1": 0.04,
    "prores_ks": 0.085,
    "ffv1": 0.017,
}
# SeedVR2 and Wan: floating-point operations per CPU second of a core, measured; per second of a
# card, and in float16 on a processor, that is a guess, which the first finished job corrects.
FLOPS = {
    ("cpu", "float32"): 6e10,
    ("cpu", "bfloat16"): 9e10,
    ("cpu", "float16"): 6e9,
    ("cuda", "float32"): 1e13,
    ("cuda", "float16"): 4e13,
    ("cuda", "bfloat16"): 4e13,
}
ENCODE_OTHER = 0.03  # hardware encoders and pictures


@dataclass(frozen=True, slots=True)
class Rates:
    """Correction of the predicted time for a kind of job; 1 where nothing was measured yet."""

    factors: dict[str, float] = field(default_factory=dict)

    def factor(self, kind: str) -> float:
        """Measured over predicted time of this kind, an average of the latest jobs."""
        return self.factors.get(kind, 1.0)

    def is_measured(self, kind: str) -> bool:
        """True when a job of this kind has finished here."""
        return kind in self.factors


def load_rates() -> Rates:
    """What earlier jobs on this machine taught; nothing when the file is missing or damaged."""
    try:
        data = json.loads(_file().read_text(encoding="utf-8"))
        return Rates({str(k): min(20.0, max(0.05, float(v))) for k, v in data.items()})
    except (OSError, ValueError, AttributeError, TypeError):
        return Rates()


def learn(kind: str, *, predicted: float, measured: float) -> None:
    """Move the factor of `kind` half of the way to what a finished job took.

    Args:
        kind: Model, factor and encoder.
        predicted: Seconds the plan said, with the factor of that time.
        measured: Seconds it took, pauses left out.
    """
    if predicted <= 0 or measured <= 0:
        return
    rates = load_rates()
    wanted = rates.factor(kind) * measured / predicted
    now = wanted if not rates.is_measured(kind) else (rates.factor(kind) + wanted) / 2
    file = _file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_text(json.dumps({**rates.factors, kind: round(now, 4)}), encoding="utf-8")
        part.replace(file)
    except OSError:
        return  # the next job is predicted as before


def _file() -> Path:
    return paths.cache_folder() / "rates.json"
