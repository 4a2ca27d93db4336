"""All groups of cases, by name."""

from __future__ import annotations

from tests.trials.faults.commands import Commands
from tests.trials.faults.community import CommunityModels
from tests.trials.faults.farm import Farm
from tests.trials.faults.farm_jobs import FarmJobs
from tests.trials.faults.group import Group
from tests.trials.faults.kills import Kills
from tests.trials.faults.media import Media
from tests.trials.faults.records import Records
from tests.trials.faults.replies import Replies
from tests.trials.faults.syscalls import SystemCalls
from tests.trials.faults.upscales import Upscales
from tests.trials.faults.weights import Weights
from tests.trials.faults.wheels import Wheels

_ALL: tuple[type[Group], ...] = (
    *(Media, Upscales, Weights, CommunityModels, Wheels, Records, Replies, Farm, Kills),
    *(SystemCalls, FarmJobs, Commands),
)
GROUPS = {group.name: group for group in _ALL}
