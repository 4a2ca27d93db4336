"""Looks that only advise: how well a source was coded, a preview, a rate to learn."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


def advised(look: Callable[[], T], otherwise: T) -> T:
    """What a look finds, or `otherwise` where it fails for whatever reason, which is logged.

    Whatever only advises goes through here, so that it never stops a job. Cancelled and
    out-of-memory errors count as failures too: the work itself meets both.
    """
    try:
        return look()
    except Exception:  # the libraries that look raise errors of every class
        logger.info("a look that only advises failed", exc_info=True)
        return otherwise
