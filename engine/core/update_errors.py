"""What can be wrong with an update; a part of the hierarchy of `engine.core.errors`."""

from __future__ import annotations

from engine.core.errors import EngineError


class UpdateError(EngineError):
    """Something about an update of the program."""

    code = "update-error"


class UpdateNotInBuild(UpdateError):
    """This build does not know where updates are published, or by whose key they are signed."""

    code = "update-not-in-build"


class UpdateUnreachable(UpdateError):
    """Where updates are published nobody answers, or with something else."""

    code = "update-unreachable"


class UpdateUntrusted(UpdateError):
    """What came was not signed by us, or is the description of something else."""

    code = "update-untrusted"


class UpdateTooNew(UpdateError):
    """The description of the update is written in a way that this version cannot read."""

    code = "update-too-new"


class UpdateDamaged(UpdateError):
    """The setup is not the one that was published."""

    code = "update-damaged"


class UpdateMissing(UpdateError):
    """There is no update, or its setup was not loaded."""

    code = "update-missing"


class UpdateBusy(UpdateError):
    """Somebody is at it already."""

    code = "update-busy"


class UpdateNotInstallable(UpdateError):
    """This copy of the program was not installed by a setup, or the setup does not start."""

    code = "update-not-installable"
