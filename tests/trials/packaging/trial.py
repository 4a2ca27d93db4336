"""What the trials of the packages share: a failed step, checks, steps with their seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "resources" / "samples" / "upreel_sample.mp4"
UNINSTALL_KEY = r"Software\Microsoft\Windows\CurrentVersion\Uninstall\Upreel"


class TrialFailed(Exception):
    """The program or the setup did not behave as expected."""


def expect(condition: bool, otherwise: str) -> None:
    """Fail with a message unless the condition is true."""
    if not condition:
        raise TrialFailed(otherwise)


def run_step(title: str, step: Callable[[], object]) -> None:
    """Run a step and print its seconds.

    Raises:
        TrialFailed: The step failed; the message names it.
    """
    started = time.monotonic()
    try:
        step()
    except TrialFailed as err:
        raise TrialFailed(f"{title}: {err}") from err
    print(f"{time.monotonic() - started:6.1f} s  {title}", flush=True)
