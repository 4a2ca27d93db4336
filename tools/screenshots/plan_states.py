"""States of the plan card, the presets and the gauges, for `tools.screenshots.render`.

The engine makes the plans, for GPUs of the table; that such a GPU and its model are in this
machine, and what its driver reports, is made up here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QAbstractButton, QComboBox, QScrollArea, QWidget

from engine.core.errors import ResultHeldBack
from engine.core.messages import message
from engine.farm import planning
from engine.hardware.budget import pretended_budget
from engine.hardware.commit import Commit
from engine.hardware.gpu_reading import pretended
from engine.hardware.gpu_table import named
from engine.planner import times
from engine.planner.availability import devices_here
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Learned, Rates
from engine.protocol import events
from engine.protocol.gpu_reading import GpuProcess, GpuReading
from engine.protocol.media import Statement
from engine.protocol.plan import Notice, Plan
from engine.settings.schema import JobSettings
from engine.video.write.statements import StatedResult, statement_notices

if TYPE_CHECKING:
    from tools.screenshots.player import Player

GPU, SMALL_GPU = "RTX 5070 Ti", "RTX 4060"
FITS = JobSettings(height=1080, working_size=84)  # "auto" and the preset Balanced
TOO_MUCH = JobSettings(model="seedvr2-7b", height=8640)
_FRAMES = 40 * 60 * 24  # of a video that takes hours
_OF_THIS_MACHINE = ("pretended-card", "weights-missing")
READING = GpuReading(
    name="NVIDIA GeForce RTX 5070 Ti",
    total_mb=16303,
    ours_mb=0,
    others_mb=1310,
    load_percent=3,
    temperature_c=41,
    driver="581.29",
    power_w=38,
    link="PCIe 5.0 x16",
)
_SPILLED = replace(
    READING,
    ours_mb=12650,
    others_mb=3480,
    load_percent=99,
    temperature_c=67,
    power_w=241,
    spilled_mb=1229,
    processes=(GpuProcess(name="chrome.exe", mb=2150), GpuProcess(name="dwm.exe", mb=890)),
)


def _plan(said: list[events.Event]) -> Plan:
    return next(e.plan for e in said if isinstance(e, events.PlanChosen))


def _as_if_here(plan: Plan) -> Plan:
    """A plan as if GPU and model were installed; its time stays a guess."""
    notices = tuple(n for n in plan.notices if n.code not in _OF_THIS_MACHINE)
    return replace(plan, notices=notices, is_pretended=False)


def telemetry(player: Player, gpu: GpuReading) -> None:
    """Emit what a driver reports, with the rest of the recorded reading."""
    last = next(e for e in reversed(player.recording.said) if isinstance(e, events.Telemetry))
    player.say([replace(last, gpu=gpu)])


def show(player: Player, said: list[events.Event], settings: JobSettings, plan: Plan) -> None:
    """Play what the engine has said with another plan."""
    player.say([event for event in said if isinstance(event, events.PresetsListed)])
    player.add("sample", "upreel_sample.mp4", settings)
    changed = [replace(e, plan=plan) if isinstance(e, events.PlanChosen) else e for e in said]
    player.play(changed)


def _on_gpu(player: Player) -> None:
    said = player.recording.on_gpu
    telemetry(player, READING)
    show(player, said, FITS, _as_if_here(_plan(said)))


def _why(player: Player) -> None:
    _on_gpu(player)
    player.program.window.columns.why_sheet.open_up()
    player.settle()


def _with_machines(player: Player) -> None:
    """Two paired computers have helped with such videos before, a third one has not."""
    queued = next(e for e in player.recording.on_gpu if isinstance(e, events.JobQueued))
    video = replace(queued.media.video, frame_count=_FRAMES, duration=Fraction(_FRAMES, 24))
    media, settings = replace(queued.media, video=video), replace(FITS, machines="all")
    paired = {"1": "Studio", "2": "Cutting room", "3": "Laptop"}
    request = Request(media=media, settings=settings, machines=paired)
    budget = pretended_budget(named(GPU), ram_bytes=24 * 2**30)
    kind = times.kind(plan_job(request, budget, Rates()))
    jobs = {
        f"{kind} on {planning.machine_title(one)}": Learned(factor=factor)
        for one, factor in (("1", 0.9), ("2", 2.2))
    }
    said = [replace(e, media=media) if e is queued else e for e in player.recording.on_gpu]
    telemetry(player, READING)
    show(player, said, settings, _as_if_here(plan_job(request, budget, Rates(jobs=jobs))))
    sheet = player.program.window.columns.why_sheet
    sheet.open_up()
    player.settle()
    bar = sheet.findChild(QScrollArea).verticalScrollBar()
    bar.setValue(bar.maximum())
    player.settle()


def _commit(player: Player) -> None:
    """A PC without a page file, where browsers were promised most of the RAM."""
    queued = next(e for e in player.recording.on_gpu if isinstance(e, events.JobQueued))
    budget = pretended_budget(named(GPU), ram_bytes=24 * 2**30)
    promised = Commit(limit_bytes=32 * 2**30, left_bytes=11 * 2**30, counts_vram=True)
    request = Request(media=queued.media, settings=FITS)
    plan = plan_job(request, replace(budget, commit=promised), Rates())
    telemetry(player, READING)
    show(player, player.recording.on_gpu, FITS, _as_if_here(plan))


def _pretended(player: Player) -> None:
    said = player.recording.on_gpu
    telemetry(player, pretended((named(GPU),))[0])
    show(player, said, FITS, _plan(said))


def _refused(player: Player) -> None:
    said = player.recording.too_much
    telemetry(player, replace(READING, name="NVIDIA GeForce RTX 4060", total_mb=8188))
    show(player, said, TOO_MUCH, _as_if_here(_plan(said)))


def _spilled(player: Player) -> None:
    _on_gpu(player)
    plan = player.program.queue.rows[0].plan
    assert plan is not None
    notice = Notice(
        code="plan-changed",
        case="spilled",
        severity="warning",
        params={
            "size": "1.2 GB",
            "change": message("change.clips", before=45, after=21),
            "gpu_user": message("reason.gpu-held", name="chrome.exe", size="2.1 GB"),
        },
    )
    total = plan.frames
    player.play(
        [
            events.JobStarted(job_id="", total=total),
            events.StageStarted(job_id="", stage="run"),
            events.StageProgress(
                job_id="",
                stage="write",
                done=total // 3,
                total=total,
                frames_per_second=0.42,
                seconds_left=total / 3 * 2 / 0.42,
            ),
            events.PlanDowngraded(job_id="", plan=plan, why="spilled", notice=notice),
        ]
    )
    telemetry(player, _SPILLED)


_TIMES = {  # s
    "load": 9.2,
    "read": 1.4,
    "encode": 6.1,
    "transformer": 8.8,
    "decode": 14.6,
    "restore": 1.2,
    "write": 3.3,
    "wait": 1.1,
}


def _last_minute(player: Player) -> None:
    """A video runs on the GPU, and the gauges are open: a minute of made-up readings."""
    _on_gpu(player)
    plan = player.program.queue.rows[0].plan
    assert plan is not None
    last = next(e for e in reversed(player.recording.said) if isinstance(e, events.Telemetry))
    total = plan.frames
    player.play(
        [
            events.JobStarted(job_id="", total=total, at=last.at - 50),
            events.StageStarted(job_id="", stage="prepare", at=last.at - 50),
            events.StageStarted(job_id="", stage="weights", at=last.at - 48),
            events.StageStarted(job_id="", stage="run", at=last.at - 41),
            events.StagesTimed(job_id="", seconds=_TIMES),
        ]
    )
    player.program.telemetry.history.clear()
    for second in range(-59, 1):
        share = max(0.0, min(1.0, (second + 41) / 12))
        wave = (second % 9) / 9
        gpu = replace(
            _SPILLED,
            spilled_mb=0,
            ours_mb=round(share * (7200 + 1400 * wave)),
            others_mb=1310 + 6 * (second + 60),
            load_percent=round(4 + share * (82 + 12 * wave)),
        )
        speed = events.StageProgress(
            job_id="sample",
            stage="write",
            done=second + 60,
            total=total,
            frames_per_second=share * (0.36 + 0.06 * wave),
        )
        player.program.bridge.deliver(speed)
        ram = round(last.ram_ours_mb * (1 + share * (1 + wave)))
        reading = replace(last, gpu=gpu, at=last.at + second, ram_ours_mb=ram)
        player.program.bridge.deliver(reading)
    player.program.window.findChild(QAbstractButton, "gauges").click()
    player.settle()


def _last_minute_here(player: Player) -> None:
    """The last minute on the computer of the recording, without a GPU."""
    player.add("sample", "upreel_sample.mp4")
    player.program.telemetry.history.clear()
    for event in player.recording.part(0.9):
        if isinstance(event, events.Telemetry):
            player.program.bridge.deliver(event)
        elif isinstance(event, events.JobEvent):
            player.program.bridge.deliver(replace(event, job_id="sample"))
    player.program.window.findChild(QAbstractButton, "gauges").click()
    player.settle()


def _findings(player: Player) -> None:
    """An interlaced recording with black bars."""
    said = player.recording.on_gpu
    telemetry(player, READING)
    plan = _as_if_here(_plan(said))
    found = (
        Notice(
            code="deinterlaced",
            case="frames",
            severity="info",
            params={"rate": "25", "offers": "deinterlace=fields"},
        ),
        Notice(
            code="black-bars",
            severity="info",
            params={"size": "720x576", "picture": "720x432", "offers": "black_bars=put-back"},
        ),
    )
    show(player, said, FITS, replace(plan, notices=(*found, *plan.notices)))


def _statements(player: Player) -> None:
    """A recording whose captions and layers of HDR the result cannot hold."""
    said = player.recording.on_gpu
    telemetry(player, READING)
    plan = _as_if_here(_plan(said))
    media = next(e.media for e in said if isinstance(e, events.JobQueued))
    stated = {"captions": "", "dolby-vision": "8.1", "afd": "", "stereo3d": "4"}
    film = replace(
        media,
        video=replace(media.video, hdr="pq"),
        statements=tuple(Statement(kind=kind, value=value) for kind, value in stated.items()),
    )
    place = StatedResult(container="mov", codec="prores", frame_rate=None)
    found = tuple(statement_notices(film, place))
    show(player, said, FITS, replace(plan, notices=(*found, *plan.notices)))


def _held_back(player: Player) -> None:
    """The drive of the source has gone in the middle of a job."""
    _on_gpu(player)
    error = ResultHeldBack("source-lost", name="upreel_sample.mp4", reason="Input/output error")
    player.play(
        [
            events.JobStarted(job_id="", total=96),
            events.JobFailed(job_id="", error=error.info()),
        ]
    )


def _after_queue(player: Player) -> None:
    """The last video has ended; the computer shuts down unless the user cancels it."""
    _on_gpu(player)
    player.program.after_queue.card.show_countdown("shut-down", "", 42)
    player.settle()


def _preset_list(player: Player) -> None:
    _on_gpu(player)
    player.program.window.choices.presets.open_list()
    player.settle()


def _device_list(player: Player) -> None:
    """Two GPUs are here; the list of what videos can run on is open."""
    editor = _device_editor(player)
    editor.findChild(QComboBox).showPopup()
    player.settle()


def _all_gpus(player: Player) -> None:
    """A video runs on both, the list of those that are excluded is open."""
    _device_editor(player)
    excluded = {"device": "all", "excluded_gpus": named(SMALL_GPU).name}
    player.program.window.choices.choose(excluded)
    player.settle()
    editor = player.program.window.choices.more.editors["excluded_gpus"]
    editor.findChild(QComboBox).showPopup()
    player.settle()


def _device_editor(player: Player) -> QWidget:
    player.say([devices_here((named(SMALL_GPU), named(GPU)))])
    _on_gpu(player)
    more = player.program.window.choices.more
    more.unfold()
    player.settle()
    editor = more.editors["device"]
    area = next(
        one for one in player.program.window.findChildren(QScrollArea) if one.isAncestorOf(editor)
    )
    area.ensureWidgetVisible(editor, 0, 120)
    player.settle()
    return editor


def _preset_menu(player: Player) -> None:
    _on_gpu(player)
    player.program.window.choices.presets.open_menu()
    player.settle()


STATES: dict[str, Callable[[Player], None]] = {
    "card": _on_gpu,
    "card_why": _why,
    "card_machines": _with_machines,
    "card_commit": _commit,
    "card_pretended": _pretended,
    "card_refused": _refused,
    "card_spilled": _spilled,
    "card_findings": _findings,
    "card_statements": _statements,
    "held_back": _held_back,
    "after_queue": _after_queue,
    "last_minute": _last_minute,
    "last_minute_no_gpu": _last_minute_here,
    "preset_list": _preset_list,
    "preset_menu": _preset_menu,
    "device_list": _device_list,
    "all_gpus": _all_gpus,
}
