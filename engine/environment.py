"""What has to be in the process environment before torch is loaded."""

from __future__ import annotations

import os

# Threads of torch that wait for work spin for a while by default. The encoder, the decoder and
# the window need those cores: with spinning the small operations around the model took 10 to 70
# times the processor time on two busy cores.
_SETTINGS = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}


def prepare() -> None:
    """Set what is not set already; must run before the first import of torch."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
