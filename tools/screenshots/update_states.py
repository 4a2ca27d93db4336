"""States of the page of updates, for `tools.screenshots.render`. The newer version is made up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine import __version__
from engine.core.errors import EngineError, UpdateUnreachable, UpdateUntrusted
from engine.core.messages import message
from engine.protocol import events
from engine.protocol.delivery import UpdateState
from engine.protocol.tasks import Phase, TaskKind

if TYPE_CHECKING:
    from tools.screenshots.player import Player

UPDATE = TaskKind.UPDATE
_NOTES = {
    "en": """### Added
- **SeedVR2 7B in 8 GB**: weights stream from RAM while the GPU computes.
- A video in the queue can be opened in its folder by a double click.

### Fixed
- A video with a time code track could not be written as MOV.
- The estimate of the time left jumped after a pause.
""",
    "zh_CN": """### 新增
- **8 GB 显存也能运行 SeedVR2 7B**：计算时从内存中流式读取权重。
- 双击队列中的视频可打开其所在文件夹。

### 修复
- 带时间码轨道的视频无法写为 MOV。
- 暂停后剩余时间的估计会跳变。
""",
}
_NEWER: dict[str, Any] = {
    "was_checked": True,
    "newer": "0.2.0",
    "date": "2026-12-01",
    "notes": _NOTES,
    "setup": "upreel-0.2.0-setup.exe",
    "bytes": 182_400_000,
}


def _known(player: Player, **changes: Any) -> None:
    """Open the page and emit the state of the update."""
    player.program.updates.open_view()
    values = {"version": __version__, "is_in_build": True, "installed_as": "setup"}
    state = UpdateState(**(values | changes))
    player.say([events.UpdateKnown(state=state)])


def _checked(player: Player, **changes: Any) -> None:
    _known(player, **changes)
    player.say([events.TaskDone(kind=UPDATE, phase="check")])


def _downloading(player: Player) -> None:
    _checked(player, **_NEWER)
    said = events.TaskProgress(
        kind=UPDATE, phase="download", done=61.3, total=182.4, per_second=11.8, seconds_left=10.3
    )
    player.say([said])


def _failed(player: Player, phase: Phase, error: EngineError, **changes: Any) -> None:
    _known(player, **changes)
    player.say([events.TaskFailed(kind=UPDATE, phase=phase, error=error.info())])


def _untrusted() -> UpdateUntrusted:
    return UpdateUntrusted("signature")


def _unreachable() -> UpdateUnreachable:
    return UpdateUnreachable(
        "description",
        host="example.org",
        why=message("reason.transfer.unknown-name"),
        help=message("help.transfer.connection"),
    )


STATES: dict[str, Callable[[Player], None]] = {
    "update_looking": _known,
    "update_none": lambda player: _checked(player, was_checked=True),
    "update_newer": lambda player: _checked(player, **_NEWER),
    "update_downloading": _downloading,
    "update_partial": lambda player: _checked(player, **_NEWER, done_bytes=61_300_000),
    "update_ready": lambda player: _checked(player, **_NEWER, is_ready=True),
    "update_portable": lambda player: _checked(player, **(_NEWER | {"installed_as": "portable"})),
    "update_offline": lambda player: _failed(player, "check", _unreachable()),
    "update_untrusted": lambda player: _failed(player, "check", _untrusted(), **_NEWER),
    "update_not_in_build": lambda player: _checked(player, is_in_build=False),
}
