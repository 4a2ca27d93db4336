"""Errors of other computers, of the hierarchy of `engine.core.errors`."""

from __future__ import annotations

from engine.core.errors import EngineError


class MachineError(EngineError, code="machine-error"):
    """Something about other computers that work with this one."""


class IdentityDamaged(MachineError, code="identity-damaged"):
    """The file of the own key, or of the computers that this one is paired with, makes no sense."""


class UnknownMachine(MachineError, code="unknown-machine"):
    """No paired computer, or more than one, has that name."""


class MachineUnreachable(MachineError, code="machine-unreachable"):
    """The other computer, or the network, does not answer."""


class PortTaken(MachineError, code="port-taken"):
    """Another program listens where other computers come in."""


class AlreadyLent(MachineError, code="already-lent"):
    """Another Upreel lends this computer."""


class SegmentDamaged(MachineError, code="segment-damaged"):
    """A part of the video did not arrive at the other computer as it was sent."""


class PairingFailed(MachineError, code="pairing-failed"):
    """Both computers are as they were before: neither trusts the other."""
