"""All groups of cases, by name."""

from __future__ import annotations

from tests.faults.commands import Commands
from tests.faults.community import CommunityModels
from tests.faults.farm import Farm
from tests.faults.farm_jobs import FarmJobs
from tests.faults.group import Group
from tests.faults.kills import Kills
from tests.faults.media import Media
from tests.faults.records import Records
from tests.faults.replies import Replies
from tests.faults.syscalls import SystemCalls
from tests.faults.upscales import Upscales
from tests.faults.weights import Weights
from tests.faults.wheels import Wheels

_ALL: tuple[type[Group], ...] = (
    *(Media, Upscales, Weights, CommunityModels, Wheels, Records, Replies, Farm, Kills),
    *(SystemCalls, FarmJobs, Commands),
)
GROUPS = {group.name: group for group in _ALL}
