"""Figures for people who run slow tests: pytest shows them with -s or -rA."""

from __future__ import annotations

import sys


def tell(text: str) -> None:
    """Write a line."""
    sys.stdout.write(f"{text}\n")
