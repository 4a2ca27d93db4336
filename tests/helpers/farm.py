"""Other computers in folders of their own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from engine.farm.identity import Identity, own_identity


@contextlib.contextmanager
def computer(folder: Path) -> Iterator[None]:
    """Inside, this process is the computer that has its files in `folder`."""
    before = os.environ.get("UPREEL_DATA")
    os.environ["UPREEL_DATA"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["UPREEL_DATA"]
        else:
            os.environ["UPREEL_DATA"] = before


def identity_of(folder: Path) -> Identity:
    """The identity of the computer that has its files in `folder`."""
    with computer(folder):
        return own_identity()


def certificate_of(folder: Path) -> str:
    """Its certificate, as PEM."""
    return identity_of(folder).certificate_text
