"""A job that other machines can find and help with."""

from __future__ import annotations

import logging
from contextlib import ExitStack

from engine.farm.discovery import announced
from engine.farm.errors import MachineUnreachable
from engine.pipeline.context import JobContext
from engine.pipeline.segments import SegmentLog
from engine.workers.door import own_door
from engine.workers.hand_out import hand_out

logger = logging.getLogger(__name__)


def hand_out_to_machines(context: JobContext, segments: SegmentLog, *, port: int) -> None:
    """As `hand_out`; machines that are paired with this one can help, and find it.

    Raises:
        PortTaken: Another program listens at the port.
        IdentityDamaged: The certificates of this machine cannot be used.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(announced(jobs_port=port))
        except MachineUnreachable as err:  # who knows the address finds it
            logger.info("this computer cannot be announced: %s", err)
        hand_out(context, segments, own_door(port))
