from dataclasses import replace

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QComboBox, QWidget

from app import labels
from app.controllers.settings import PresetsController, file_name
from app.jobs.preset_form import PresetForm, title_of
from engine.protocol import commands, events
from engine.protocol.tasks import TaskKind
from engine.settings.presets import Preset
from engine.settings.schema import JobSettings
from tests.app.conftest import Bench, part
from tests.app.plan.test_plan_card import TOO_MUCH
from tests.helpers.fake_states import PRESET_GPU, make_presets


def order(bench: Bench, what: str) -> None:
    part(bench.window, f"preset-{what}", QAction).trigger()
    bench.hear()


def choose(bench: Bench, text: str) -> None:
    control = bench.find("preset")
    at = next(at for at in range(control.count()) if name_at(control, at) == text)
    control.setCurrentIndex(at)
    control.activated.emit(at)
    bench.hear()


def name_at(box: QComboBox, at: int) -> str:
    return box.itemText(at).split(" · ")[0]


def names(box: QComboBox) -> list[str]:
    return [name_at(box, at) for at in range(box.count())]


def shown(box: QComboBox) -> str:
    return name_at(box, box.currentIndex())


def test_the_list_is_asked_for_at_the_start_and_named_for_the_card(bench, qtbot):
    assert bench.asked(commands.ListPresets)
    over = QWidget()
    qtbot.addWidget(over)
    form = PresetForm(over)
    form.resize(320, 80)
    height = form.sizeHint().height()
    box = part(form, "preset", QComboBox)
    assert (box.currentText(), box.isEnabled()) == ("Checking your hardware …", False)
    form.show_presets(make_presets(), PRESET_GPU)
    assert form.sizeHint().height() == height, "nothing moves when they are known"
    assert box.isEnabled()
    form.show_presets((), "")
    assert form.isHidden()
    assert bench.find("presetFor").whole == f"for {PRESET_GPU}"
    box = bench.find("preset")
    assert names(box) == ["Custom", "Fast", "Balanced", "Best"]


def test_a_preset_for_several_goals_says_so():
    shared = Preset(name="balanced", title="GPU: all", goals=("fast", "balanced", "best"))
    assert title_of(shared) == "Fast / Balanced / Best (identical on this computer)"


def test_each_preset_has_its_time_and_what_it_brings(bench, qtbot):
    fast, *others = make_presets()
    bench.engine.tasks.presets = (replace(fast, effect="softer"), *others)
    bench.tasks.list(TaskKind.PRESET)
    job_id = bench.add()
    bench.choose(model="lite")
    box = bench.find("preset")
    plan = bench.window.selected.plan
    assert box.currentText() == f"Fast · {labels.expected(plan)} · softer", "its plan is known"
    qtbot.waitUntil(lambda: len(bench.asked(commands.ShowPlan)) == 2)
    asked = {one.settings.model: one.settings for one in bench.asked(commands.ShowPlan)}
    assert set(asked) == {"seedvr2-3b", "seedvr2-7b-sharp"}
    slow = replace(plan, seconds_low=130.0, seconds_high=800.0, seconds=400.0)
    too_much = replace(plan, notices=(TOO_MUCH,))
    for model, made in (("seedvr2-3b", slow), ("seedvr2-7b-sharp", too_much)):
        bench.emit(events.PlanShown(job_id=job_id, settings=asked[model], plan=made))
    assert [box.itemText(at) for at in range(1, 3)] == [
        "Balanced · 2–14 min",
        "Best · does not fit into memory",
    ]
    bench.choose(scale=4)
    assert labels.expected(bench.window.selected.plan) in box.currentText()
    assert box.itemText(1) == "Balanced", "times of other choices are gone"


def test_a_preset_changes_what_it_names_and_nothing_else(bench):
    job_id = bench.add()
    bench.window.choices.choose({"crf": 20})
    choose(bench, "Best")
    (*_, last) = bench.asked(commands.ChangeJob)
    assert last.job_id == job_id
    assert last.settings == JobSettings(model="seedvr2-7b-sharp", precision="q4", crf=20)
    box = bench.find("preset")
    assert shown(box) == "Best"
    assert box.toolTip() == "What best means."
    assert "Custom" not in names(box)
    bench.choose(precision="fp16")
    assert shown(box) == "Custom"
    bench.choose(precision="q4", vae="mine.safetensors")
    assert shown(box) == "Best"
    bench.choose(model="wan-2x", vae="mine.safetensors")
    choose(bench, "Best")
    assert bench.window.choices.settings.vae == "", "a VAE stays with its family"
    bench.do("start")
    assert not box.isVisible(), "text is left"


def test_choices_are_kept_under_a_title_replaced_when_asked_and_deleted(bench):
    bench.add()
    choose(bench, "Best")
    box, remove = bench.find("preset"), part(bench.window, "preset-remove", QAction)
    assert not remove.isEnabled(), "comes with the program"
    bench.patch.setattr(PresetsController, "ask_title", lambda *_: "Tapes")
    bench.choose(crf=20)
    for is_sure, saved in ((True, 1), (False, 1), (True, 2)):
        bench.patch.setattr(PresetsController, "confirm", lambda *_, is_sure=is_sure: is_sure)
        order(bench, "save")
        assert len(bench.asked(commands.SavePreset)) == saved
        assert shown(box) == "Tapes"
    last = bench.asked(commands.SavePreset)[-1]
    assert (last.title, last.settings.crf) == ("Tapes", 20)
    assert [c.name for c in bench.asked(commands.RemovePreset)] == ["tapes"]
    assert remove.isEnabled()
    order(bench, "remove")
    assert "Tapes" not in names(box)


def test_a_preset_is_given_away_and_a_bad_one_is_refused_in_words(bench, tmp_path):
    bench.add()
    own = Preset(name="x", title="VHS: Oma/Opa", is_own=True)
    assert file_name(own) == "VHS- Oma-Opa", "what every disk takes"
    assert file_name(make_presets()[0]) == "gpu Fast"
    choose(bench, "Fast")
    bench.patch.setattr(PresetsController, "ask_file", lambda *_: tmp_path / "p.toml")
    order(bench, "export")
    (command,) = bench.asked(commands.ExportPreset)
    assert (command.name, command.path) == ("fast", tmp_path / "p.toml")
    order(bench, "import")
    assert bench.find("presetProblem").isVisible()
    choose(bench, "Best")
    assert not bench.find("presetProblem").isVisible()


def test_a_preset_of_another_version_is_not_taken_in_part(bench):
    bench.add()
    old = Preset(name="old", title="Old", changes={"crf": 20, "gone": 1}, is_own=True)
    bench.engine.tasks.presets = (*make_presets(), old)
    bench.tasks.list(TaskKind.PRESET)
    choose(bench, "Old")
    assert bench.find("presetProblem").isVisible()
    assert bench.window.choices.settings == JobSettings()
    assert shown(bench.find("preset")) == "Custom"
