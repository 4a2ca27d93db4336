"""States of the list of models and of choices that need one, for `tools.screenshots.render`.

Catalogue and plan are the engine's; states of files and speeds of downloads are made up here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import ErrorInfo, LibraryMissing
from engine.core.messages import message
from engine.files.catalogue import catalogue
from engine.models.community.plan import CommunityPlan, NetworkCall, NetworkCost
from engine.planner import first_pass, preset_choice
from engine.protocol import events
from engine.protocol.model_file_state import NetworkFacts, PublishedState, State, facts_of
from engine.protocol.plan import Notice, StagePlan, WeightsPlan
from engine.protocol.tasks import TaskKind
from engine.settings.schema import SEEDVR2, JobSettings
from tools.screenshots import plan_states

if TYPE_CHECKING:
    from tools.screenshots.player import Player

DIT, LARGE = "seedvr2-3b-fp16", "seedvr2-7b-fp8"
FILE = TaskKind.MODEL_FILE
_FREE_MB = 212_000.0


def _list(player: Player, **states: State) -> None:
    """Emit the states of files; names have "_" for "-", all others are missing."""
    files = [
        _standing(file, states.get(file.id.replace("-", "_"), "missing"))
        for file in player.model_files.files
    ]
    player.say([events.ModelFilesListed(files=tuple(files), free_mb=_FREE_MB)])


def _standing(file: PublishedState, state: State) -> PublishedState:
    size = file.bytes or file.about_bytes
    shares = {"missing": 0.0, "partial": 0.36}
    is_borrowed = state == "unverified"
    folder = Path.home() / ("ComfyUI/models/SEEDVR2" if is_borrowed else "models")
    return replace(
        file,
        state=state,
        path=folder / file.filename if state != "missing" else None,
        done_bytes=round(size * shares.get(state, 1.0)),
        borrowed=is_borrowed,
    )


def _companions(player: Player) -> list[PublishedState]:
    """VAE and text embedding of SeedVR2."""
    ours = set(SEEDVR2)
    return [f for f in player.model_files.files if f.kind != "dit" and ours.intersection(f.models)]


def _shared(player: Player) -> dict[str, State]:
    """The model files are installed."""
    return {file.id.replace("-", "_"): "here" for file in _companions(player)}


def _recommended(player: Player) -> None:
    _list(player)
    plan_states.telemetry(player, plan_states.READING)
    player.program.models.open_view()
    presets = preset_choice.presets_of("RTX 5070 Ti, 16 GB", 16 * 2**30)
    player.say([events.PresetsListed(presets=presets, card="RTX 5070 Ti, 16 GB")])


def partly_here(player: Player) -> None:
    """The recommendation, whose shared files are here, and a part of the others."""
    _recommended(player)
    _list(player, **_shared(player), seedvr2_7b_sharp_fp8="partial", seedvr2_7b_sharp_q4="partial")


def _models(player: Player) -> None:
    _recommended(player)
    player.program.models.view.unfold()


def _fetching(player: Player) -> None:
    _models(player)
    player.program.models.get(DIT)
    _list(player, **_shared(player))
    for file in _companions(player):
        player.say([events.TaskDone(kind=FILE, subject=file.id, phase="download", result=file)])
    for done in (2712.0, 2715.4):
        player.say([progress(DIT, done, 6780.0)])
    player.program.models.get(LARGE)
    player.settle()


def progress(file: str, done: float, total: float) -> events.TaskProgress:
    """Progress of the download of a file, MB."""
    return events.TaskProgress(
        kind=FILE,
        subject=file,
        phase="download",
        done=done,
        total=total,
        per_second=11.3,
        seconds_left=(total - done) / 11.3,
    )


def _failed(player: Player) -> None:
    _models(player)
    _list(player, **_shared(player), seedvr2_3b_fp16="partial", seedvr2_3b_q4="damaged")
    error = ErrorInfo(
        code="download-failed",
        case="server",
        params={
            "host": "huggingface.co",
            "name": "seedvr2_ema_3b_fp16.safetensors",
            "why": message("reason.transfer.silent"),
            "help": message("help.transfer.connection"),
        },
    )
    player.say([events.TaskFailed(kind=FILE, subject=DIT, phase="download", error=error)])


def _complete(player: Player) -> None:
    _models(player)
    states = {"seedvr2_3b_fp16": "here", "seedvr2_7b_fp16": "unverified"}
    wan = {"wan_2x_fp32": "here", "wan21_vae_16bit": "unverified"}
    _list(player, **_shared(player), **states, **wan)


def _missing(player: Player) -> None:
    """A plan on the computer of the recording, which has no such files."""
    _list(player)
    _choose(player)
    player.play(player.recording.seedvr2)


def _chosen(player: Player) -> None:
    """A plan as if the files were installed."""
    _list(player, **_shared(player), seedvr2_3b_fp16="here")
    _choose(player)
    player.play([_allowed(event) for event in player.recording.seedvr2])


def _choose(player: Player) -> None:
    settings = JobSettings(model="seedvr2-3b", strength=80)
    player.add("sample", "upreel_sample.mp4", settings)


def _allowed(event: events.Event) -> events.Event:
    if not isinstance(event, events.PlanChosen):
        return event
    notices = tuple(n for n in event.plan.notices if n.severity != "refusal")
    return replace(event, plan=replace(event.plan, notices=notices))


def _chosen_more(player: Player) -> None:
    _chosen(player)
    player.program.window.choices.more.unfold()


def _wan_missing(player: Player) -> None:
    _list(player)
    player.add("sample", "upreel_sample.mp4", JobSettings(model="wan-2x"))
    player.play(player.recording.wan)


def _wan(player: Player) -> None:
    """A plan as if the file was installed."""
    _list(player, wan_2x_fp32="here")
    player.add("sample", "upreel_sample.mp4", JobSettings(model="wan-2x"))
    player.play([_allowed(event) for event in player.recording.wan])


def _wan_more(player: Player) -> None:
    _wan(player)
    player.program.window.choices.more.unfold()


def _models_wan(player: Player) -> None:
    _complete(player)
    player.program.models.view.reveal("wan22-vae-pth")


def _own(name: str, scale: int) -> PublishedState:
    """A community model that the user has brought."""
    path = Path.home() / "models" / name
    return PublishedState(
        id="own-3f6580d9bfa6",
        title=name,
        kind="upscaler",
        models=("community",),
        precision="fp32",
        filename=name,
        bytes=2_400_000,
        state="here",
        path=path,
        network=NetworkFacts(architecture="RealESRGAN Compact", scale=scale, takes_half=True),
    )


def _first_pass(player: Player) -> None:
    """SeedVR2 after a model that keeps the size."""
    own = _own("1x_denoise.pth", 1)
    _list(player, **_shared(player), seedvr2_3b_fp16="here")
    files = (*player.model_files.files, own)
    player.say([events.ModelFilesListed(files=files, free_mb=_FREE_MB)])
    settings = JobSettings(model="seedvr2-3b", strength=80, first_model=str(own.path))
    player.add("sample", "upreel_sample.mp4", settings)
    player.play([_cleaned(_allowed(event), own) for event in player.recording.seedvr2])


def _cleaned(event: events.Event, own: PublishedState) -> events.Event:
    """A plan with a first pass by a model of the user's."""
    if not isinstance(event, events.PlanChosen) or own.network is None or own.path is None:
        return event
    plan, frame = event.plan, event.plan.source_size
    first = CommunityPlan(
        frame=frame,
        tile=frame,
        weights=WeightsPlan(path=own.path),
        network=own.network,
        call=NetworkCall(dtype="float32"),
        cost=NetworkCost(),
    )
    plan = replace(plan, first_pass=first)
    clean = StagePlan(stage="clean", peak_bytes=plan.stages[0].peak_bytes, seconds=21.0)
    stages = (plan.stages[0], clean, *plan.stages[1:])
    reasons = plan.reasons
    if reasons is not None:
        reasons = replace(reasons, choices=(*reasons.choices, *first_pass.choices(plan)))
    return replace(event, plan=replace(plan, stages=stages, reasons=reasons))


def _first_pass_why(player: Player) -> None:
    _first_pass(player)
    player.program.window.columns.why_sheet.open_up()
    player.settle()


def _models_community(player: Player) -> None:
    """A model file was dropped: it was copied, and its row says what it is."""
    _complete(player)
    own = _own("4x_film.pth", 4)
    path, network = own.path, own.network
    assert network is not None
    params = {"title": own.title, "architecture": network.architecture, "facts": facts_of(own)}
    notice = Notice(code="own-weights", case="community", severity="warning", params=params)
    done = events.TaskDone(kind=FILE, subject=str(path), phase="import", result=own, notice=notice)
    files = (*player.model_files.files, own)
    player.say([done, events.ModelFilesListed(files=files, free_mb=_FREE_MB)])


def _models_library(player: Player) -> None:
    """The packaged program: a model file was dropped, and its library is not here."""
    _complete(player)
    library = next(file for file in catalogue() if file.kind == "library").as_state()
    files = (*player.model_files.files, library)
    player.say([events.ModelFilesListed(files=files, free_mb=_FREE_MB)])
    path = Path.home() / "Downloads" / "4x_film.pth"
    player.program.models.take_file(path, "copy")
    error = LibraryMissing("packed", wheel=library.filename, version="0.4.2").info()
    player.say([events.TaskFailed(kind=FILE, subject=str(path), phase="import", error=error)])
    for _ in range(2):  # the first time the page only grows
        player.program.models.view.reveal(library.id)
        player.settle()


def _community_planned(player: Player) -> None:
    """The plan of a video with a community model."""
    said = player.recording.community
    begun = next(at for at, event in enumerate(said) if isinstance(event, events.JobStarted))
    _made_with_own(player)
    player.play(said[:begun])


def _community_finished(player: Player) -> None:
    """Its result."""
    _made_with_own(player)
    player.play(player.recording.community)
    player.settle()


def _made_with_own(player: Player) -> None:
    planned = next(e for e in player.recording.community if isinstance(e, events.PlanChosen))
    own = _own(planned.plan.work.weights_files[0].path.name, 2)
    files = (*player.model_files.files, own)
    player.say([events.ModelFilesListed(files=files, free_mb=_FREE_MB)])
    settings = JobSettings(model="community", model_file=str(own.path), stop="2")
    player.add("sample", "upreel_sample.mp4", settings)


STATES: dict[str, Callable[[Player], None]] = {
    "models": _models,
    "models_recommended": _recommended,
    "models_fetching": _fetching,
    "models_failed": _failed,
    "models_complete": _complete,
    "seedvr2": _chosen,
    "seedvr2_more": _chosen_more,
    "seedvr2_missing": _missing,
    "models_wan": _models_wan,
    "models_community": _models_community,
    "models_library": _models_library,
    "community_planned": _community_planned,
    "community_finished": _community_finished,
    "first_pass": _first_pass,
    "first_pass_why": _first_pass_why,
    "wan2x": _wan,
    "wan2x_more": _wan_more,
    "wan2x_missing": _wan_missing,
}
