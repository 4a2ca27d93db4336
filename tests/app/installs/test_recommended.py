from dataclasses import replace

from app.installs.models_page import ModelsPage
from app.installs.runtime_labels import title_of
from app.theme import tokens
from engine.core.messages import message
from engine.core.units import bytes_text
from engine.protocol import commands, events
from engine.protocol.delivery import RuntimeState
from engine.protocol.tasks import TaskKind
from engine.settings.presets import Preset
from tests.app.conftest import Bench, part, texts
from tests.helpers.fake_states import make_listed, make_runtime

FILES = ["seedvr2-text", "seedvr2-vae", "seedvr2-7b-sharp-q4"]


def _open(bench: Bench, *, automatic: str, precision: str = "") -> ModelsPage:
    preset = Preset(
        name="best",
        title="Best",
        goals=("balanced", "best"),
        changes={"model": "auto"},
        automatic=automatic,
        precision=precision,
    )
    bench.do("models")
    bench.emit(events.PresetsListed(presets=(preset,), card="RTX 5070 Ti, 16 GB"))
    return bench.program.models.view


def test_one_button_gets_what_the_presets_use_on_this_gpu(bench):
    view = _open(bench, automatic="seedvr2-7b-sharp", precision="q4")
    card = part(view, "recommended")
    assert "Recommended for RTX 5070 Ti, 16 GB" in texts(card)
    part(view, "getRecommended").click()
    bench.hear()
    asked = [command.file for command in bench.asked(commands.DownloadModelFile)]
    assert sorted(asked) == sorted(FILES)
    assert part(view, f"row-{FILES[-1]}").isVisible(), "progress and errors are seen"
    assert not part(view, "getRecommended").isEnabled()


def test_a_failed_download_says_why_where_it_was_asked_for(bench):
    view = _open(bench, automatic="seedvr2-7b-sharp", precision="q4")
    get = part(view, "getRecommended")
    get.click()
    bench.hear()
    bench.tasks.fail(TaskKind.MODEL_FILE)
    assert part(view, "recommendedProblem").isVisible()
    assert "internet connection" in texts(part(view, "recommended"))
    assert get.text() == "Try again"


def test_everything_is_here_and_there_is_no_button(bench):
    tasks = bench.engine.tasks
    for file in FILES:
        tasks.put(file, "here")
        tasks.files[file] = replace(tasks.files[file], state="here")
    view = _open(bench, automatic="seedvr2-7b-sharp", precision="q4")
    bench.hear()
    assert "Everything is installed" in texts(part(view, "recommended"))
    assert not part(view, "getRecommended").isVisible()


def test_a_machine_without_a_usable_gpu_is_recommended_lite(bench):
    view = _open(bench, automatic="lite")
    assert "Recommended: Lite and Lite Plus, built in" in texts(part(view, "recommended"))
    assert not part(view, "getRecommended").isVisible()


def test_all_models_are_folded_and_stay_open_once_opened(bench):
    view = _open(bench, automatic="lite")
    row = part(view, "row-seedvr2-3b-fp8")
    assert not row.isVisible()
    part(view, "allModels").click()
    view.close()
    bench.do("models")
    assert row.isVisible()


def test_the_runtime_that_is_missing_comes_with_the_files(bench):
    bench.engine.tasks.runtimes = make_listed()
    bench.tasks.list(TaskKind.RUNTIME)
    view = _open(bench, automatic="seedvr2-7b-sharp", precision="q4")
    runtime = bench.program.runtime_model.status.runtime
    assert runtime is not None
    assert title_of(runtime) in texts(part(view, "recommended"))
    part(view, "getRecommended").click()
    bench.hear()
    assert [one.runtime for one in bench.asked(commands.InstallRuntime)] == [runtime.id]


def _lists(bench: Bench, *runtimes: RuntimeState) -> None:
    bench.engine.tasks.runtimes = make_listed(*runtimes)
    bench.tasks.list(TaskKind.RUNTIME)


def test_what_is_here_already_is_counted(bench):
    tasks = bench.engine.tasks
    tasks.put("seedvr2-vae", "here")
    tasks.put(FILES[-1], "partial", megabytes=2600)
    tasks.put("seedvr2-text", "damaged")  # has to come again
    _lists(bench, make_runtime(state="partial", done_bytes=10**9))
    card = part(_open(bench, automatic="seedvr2-7b-sharp", precision="q4"), "recommended")
    here = tasks.files["seedvr2-vae"].bytes + 2_600_000_000 + 10**9
    total = sum(tasks.files[file].bytes for file in FILES) + make_runtime().bytes
    assert f"{bytes_text(here)} of {bytes_text(total)} downloaded" in texts(card)
    for file in FILES:
        tasks.put(file, "missing")
    asked = len(bench.asked(commands.ListPresets))
    tasks.list(TaskKind.MODEL_FILE)
    bench.hear()
    assert len(bench.asked(commands.ListPresets)) == asked + 1, "Fast depends on what is installed"
    _open(bench, automatic="seedvr2-7b-sharp", precision="q4")
    _lists(bench, make_runtime())
    assert f"{bytes_text(total)} total" in texts(card)


def test_a_broken_runtime_is_reported_and_comes_again(bench):
    tasks = bench.engine.tasks
    for file in FILES:
        tasks.put(file, "here")
    why = message("reason.runtime.not-installed")
    _lists(bench, make_runtime(state="broken", is_chosen=True, why=why))
    view = _open(bench, automatic="seedvr2-7b-sharp", precision="q4")
    problem = part(view, "recommendedProblem")
    assert problem.isVisible()
    assert "The NVIDIA runtime is installed but cannot be used" in texts(problem)
    assert "Reason: it is not installed" in texts(problem)
    part(view, "getRecommended").click()
    bench.hear()
    assert [one.runtime for one in bench.asked(commands.InstallRuntime)] == ["cu130"]
    _lists(bench, make_runtime(state="here", is_chosen=True, is_used=True))
    assert not problem.isVisible()


def test_a_broken_runtime_in_use_is_reported_without_a_button(bench):
    for file in FILES:
        bench.engine.tasks.put(file, "here")
    _lists(bench, make_runtime(state="broken", is_chosen=True, is_used=True))
    view = _open(bench, automatic="seedvr2-7b-sharp", precision="q4")
    assert part(view, "recommendedProblem").isVisible()
    assert not part(view, "getRecommended").isVisible()


def test_whether_all_models_are_shown_is_kept_until_the_next_start(bench):
    kept = bench.program.ui_state
    assert not kept.shows_all_models
    view = _open(bench, automatic="lite")
    part(view, "allModels").click()
    assert kept.shows_all_models
    bench.program.models._view = None  # as another start makes it
    again = bench.program.models.view
    opener = part(again, "allModels")
    assert opener.isChecked()
    assert not opener.hasFocus()
    edge = opener.grab().toImage().pixelColor(opener.width() // 2, 0)
    assert edge.name() != tokens.current().accent.lower(), "that is the frame of the focus"
    part(again, "allModels").click()
    assert not kept.shows_all_models


def test_a_download_that_windows_may_block_says_so_and_a_blocked_runtime_is_not_fetched_again(
    bench,
):
    tasks = bench.engine.tasks
    tasks.runtimes = make_listed(smart_app_control="on")
    tasks.list(TaskKind.RUNTIME)
    view = _open(bench, automatic="seedvr2-7b-sharp", precision="q4")
    bench.hear()
    assert "Smart App Control" in texts(part(view, "recommendedProblem"))
    why = message("reason.runtime.blocked.smart-app-control", why="c10_cuda.dll")
    tasks.runtimes = make_listed(make_runtime(state="blocked", why=why))
    tasks.list(TaskKind.RUNTIME)
    bench.hear()
    assert "c10_cuda.dll" in texts(part(view, "recommendedProblem"))
    part(view, "getRecommended").click()
    bench.hear()
    assert not bench.asked(commands.InstallRuntime)
    assert bench.asked(commands.DownloadModelFile)
