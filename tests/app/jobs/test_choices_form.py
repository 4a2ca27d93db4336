from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from app.engine_messages import choice_hint, choice_text, setting_title
from app.jobs.choices_form import ChoicesForm
from app.jobs.output_form import strength_of
from engine.core.errors import SettingsError
from engine.core.messages import message
from engine.protocol import commands
from engine.protocol.events import DeviceChoice, DevicesListed, PlanFailed
from engine.protocol.plan import Notice
from engine.settings.presets import Preset
from engine.settings.schema import CODECS, CONTAINERS, MODELS, SEEDVR2, JobSettings, model_family

AFTER = {"time": "0:00:10", "start": 99, "duration": 10}


def is_shown(form: ChoicesForm, name: str) -> bool:
    return form.more.editors[name].isVisibleTo(form.more.editors[name].parentWidget())


def test_only_what_the_model_looks_at_is_shown(qtbot):
    form = ChoicesForm()
    qtbot.addWidget(form)
    always, headed = (
        {"segment_seconds"},
        {
            "Image": {"seedvr2", "swiftvr", "lite", "community"},
            "Clips and cuts": {"seedvr2", "swiftvr", "wan"},
        },
    )
    of_family = {
        "seedvr2": {"seed", "clip_frames", "shots", "decode_tile", "vae"},
        "swiftvr": {"shots", "vae"},
        "lite": {"tile", "steadiness"},
        "wan": {"shots", "decode_tile", "vae"},
        "community": {"tile", "model_file", "steadiness"},
    }
    looked_at = set().union(*of_family.values())
    for model in MODELS:
        form.show_job(None, JobSettings(model=model))
        family = model_family("lite" if model == "auto" else model)
        shown = {name for name in looked_at | always | {"latents"} if is_shown(form, name)}
        assert shown == always | of_family.get(family, set()), model
        headings = [one.text() for one in form.more.rows._headings.values() if not one.isHidden()]
        for text, families in headed.items():
            assert (text in headings) is (family in families), model


def test_before_the_first_film_automatic_is_what_the_gpu_can_run(qtbot):
    form = ChoicesForm()
    qtbot.addWidget(form)
    shown = []
    for automatic in ("seedvr2-7b-sharp", "lite"):
        presets = (Preset(name="best", title="Best", goals=("best",), automatic=automatic),)
        form.show_presets(presets, "")
        shown.append((is_shown(form, "seed"), form._treatment.isVisibleTo(form)))
    assert shown == [(True, False), (False, True)]


def test_the_sample_is_made_with_lite_whatever_automatic_means(bench):
    bench.program.controller.settings = JobSettings(model="seedvr2-3b")
    bench.window.sample_requested.emit()
    (added,) = bench.asked(commands.AddJob)
    assert (added.settings.model, added.source.name) == ("lite", "upreel_sample.mp4")


def test_a_scale_takes_the_place_of_height_and_width(bench):
    job_id = bench.add()
    bench.choose(height=1000, width=333)
    fields = {name: bench.find(f"setting-{name}") for name in ("scale", "height", "width")}
    fields["scale"].setValue(3)
    bench.window.choices.flush()
    bench.hear()
    settings = bench.program.queue.find(job_id).settings
    assert (settings.scale, settings.height, settings.width) == (3, 0, 0)
    assert [fields[name].value() for name in ("height", "width")] == [0, 0]
    fields["height"].setValue(500)
    fields["width"].setValue(900)
    fields["height"].setValue(0)
    assert fields["width"].value() == 0, "it counts together with a height"


def test_strength_is_a_choice_of_seedvr2_and_reaches_the_job(bench, qtbot):
    job_id = bench.add()
    form, strength = bench.window.choices, bench.find("setting-strength")
    assert not strength.isVisible()
    row = bench.program.queue.find(job_id)
    before = row.settings
    row.settings = replace(before, model="seedvr2-3b", strength=30)
    form.show_job(row, JobSettings())
    assert strength.value() == 30
    assert not form._timer.isActive(), "showing it is not a change"
    row.settings = before
    bench.choose(model="swiftvr", strength=100)
    assert strength.isVisible()
    bench.choose(model="seedvr2-7b", strength=100)
    assert strength.isVisible()
    assert not bench.find("setting-treatment").isVisible()
    with qtbot.waitSignal(form.changed, timeout=2000):
        qtbot.keyClick(strength, Qt.Key.Key_Left)
    bench.hear()
    settings = bench.asked(commands.ChangeJob)[-1].settings
    assert (settings.model, settings.strength) == ("seedvr2-7b", 95)
    assert (strength_of(0), strength_of(100)) == ("Only resized", "Fully redrawn")
    assert len({strength_of(percent) for percent in (0, 30, 60, 90, 100)}) == 5


def test_availability_is_shown_after_each_model(qtbot):
    form = ChoicesForm()
    qtbot.addWidget(form)
    form.show_availability({name: "installed" for name in SEEDVR2})
    box = form._model.control
    first, *others = (box.itemText(at) for at in range(box.count()))
    none = "No upscaling (re-encode only)"
    built_in = ["Lite · built in", "Lite Plus · built in"]
    assert (first, others[:2], others[-1]) == ("Automatic", built_in, none)
    seedvr2 = ["SeedVR2 3B · installed", "SeedVR2 7B · installed", "SeedVR2 7B sharp · installed"]
    assert others[2:8] == [*seedvr2, "SwiftVR", "Wan 2x", "Community model"]


def test_the_meaning_of_automatic_is_only_shown_where_it_was_chosen(bench):
    bench.add()
    box = bench.find("setting-model")
    assert box.currentText() == "Auto · Lite · built in"
    bench.choose(model="none")
    assert box.itemText(0) == "Automatic"
    bench.do("start")
    assert not bench.window.choices.choose({"model": "seedvr2-3b"}), "the film runs"
    assert bench.window.choices.settings.model == "none"


def test_the_limits_of_wan_are_shown_where_it_is_chosen(bench):
    notice = Notice(code="trained-on-stills", severity="info")
    bench.engine.notices = (notice,)
    bench.add()
    said = bench.find("modelLimits")
    assert not said.isVisible()
    bench.choose(model="wan-2x")
    assert said.isVisible()
    assert "Trained on photographs" in said.text()
    assert "resized afterwards" in said.text()
    shown = [label.text() for label in bench.window.findChildren(QLabel) if label.isVisible()]
    assert notice.message not in shown  # once is enough
    assert not bench.find("setting-treatment").isVisible()


def test_a_vae_of_ones_own_stays_with_its_family(bench, qtbot):
    bench.add()
    bench.window.choices.choose({"model": "seedvr2-3b", "vae": "/mine.safetensors"})
    box = bench.find("setting-model")
    for model, vae in (("seedvr2-7b", "/mine.safetensors"), ("wan-2x", "")):
        box.setCurrentIndex(box.findData(model))
        box.activated.emit(box.currentIndex())
        assert bench.window.choices.settings.vae == vae


def test_how_latents_are_meant_can_only_be_chosen_for_latents(bench):
    bench.add()
    form = bench.window.choices
    form.more.unfold()
    assert not is_shown(form, "latents")
    bench.select(bench.program.controller.add_file(Path("a.latent")))
    assert is_shown(form, "latents")
    assert is_shown(form, "latent_rate")


def grey(form: ChoicesForm, name: str) -> dict[str, str]:
    """Values in a list that cannot be chosen, with their tool tips."""
    box = form.more.editors[name].control
    items = ((box.itemData(at), box.model().item(at)) for at in range(box.count()))
    return {value: item.toolTip() for value, item in items if not item.isEnabled()}


def listed(*gpus: DeviceChoice, cpu: DeviceChoice | None = None, **others: object) -> DevicesListed:
    """Of a machine with these GPUs, the last of which is the fastest."""
    devices = (*gpus, cpu or DeviceChoice(value="cpu", title="", unavailable={}))
    automatic = gpus[-1] if gpus else devices[-1]
    return DevicesListed(devices=devices, automatic=automatic, **{"unpublished": {}, **others})


def test_what_the_chosen_device_cannot_do_is_grey_with_the_reason(bench):
    form = bench.window.choices
    no_fp4 = {"matmul": {"nvfp4": message("reason.choice.series", capability="10.0", series="50")}}
    no_gpu = {"attention": {"cudnn": message("reason.choice.gpu")}}
    gpu = DeviceChoice(value="RTX 4090", title="RTX 4090, 24 GB", unavailable=no_fp4)
    cpu = DeviceChoice(value="cpu", title="", unavailable=no_gpu)
    bench.choose(model="seedvr2-7b")
    assert grey(form, "matmul") == {}
    bench.emit(listed(gpu, cpu=cpu, unpublished={"seedvr2-7b": ("q8",)}))
    assert set(grey(form, "matmul")) == {"nvfp4"}
    assert "GeForce RTX 50" in grey(form, "matmul")["nvfp4"]
    assert set(grey(form, "precision")) == {"q8"}
    assert grey(form, "attention") == {}
    bench.choose(device="cpu", model="seedvr2-3b")
    assert (grey(form, "matmul"), grey(form, "precision")) == ({}, {})
    assert "an NVIDIA GPU" in grey(form, "attention")["cudnn"]
    bench.use_language("zh_CN")
    assert "NVIDIA 显卡" in grey(form, "attention")["cudnn"]
    assert "machine" not in grey(form, "attention")["cudnn"]


def test_a_gpu_can_be_chosen_where_there_are_several(bench):
    form, box = bench.window.choices, bench.window.choices.more.editors["device"].control

    def offered() -> list[str]:
        return [box.itemText(at) for at in range(box.count())] if is_shown(form, "device") else []

    slow, fast = (
        DeviceChoice(value=f"NVIDIA GeForce {name}", title=f"{name}, {size} GB", unavailable={})
        for name, size in (("RTX 3060", 12), ("RTX 5070 Ti", 16))
    )
    assert offered() == [], "the engine has not listed any yet"
    bench.emit(listed())
    assert offered() == [], "there is nothing to choose"
    bench.emit(listed(fast))
    assert offered() == ["Automatic", "CPU"]
    bench.emit(listed(slow, fast))
    together = "All GPUs · RTX 3060 + RTX 5070 Ti"
    names = ["Auto · RTX 5070 Ti, 16 GB", together, slow.title, fast.title, "CPU"]
    assert offered() == names
    bench.add()
    box.setCurrentIndex(2)
    box.activated.emit(2)
    form.flush()
    bench.hear()
    assert bench.asked(commands.ChangeJob)[-1].settings.device == slow.value
    assert box.currentText() == slow.title
    bench.choose(device="NVIDIA GeForce RTX 4090")  # of an earlier day
    assert offered() == [*names, "NVIDIA GeForce RTX 4090"]
    assert box.currentText() == "NVIDIA GeForce RTX 4090"
    bench.choose(device="auto")
    assert offered() == names


def test_all_gpus_work_together_but_those_that_are_excluded(bench):
    form = bench.window.choices
    editor = form.more.editors["excluded_gpus"]
    no_fp4 = {"matmul": {"nvfp4": message("reason.choice.series", capability="10.0", series="50")}}
    old, new = (
        DeviceChoice(value=f"NVIDIA GeForce {name}", title=f"{name}, 16 GB", unavailable=missing)
        for name, missing in (("RTX 4080", no_fp4), ("RTX 5070 Ti", {}))
    )
    bench.choose(model="seedvr2-7b")
    bench.emit(listed(old, new))
    assert not is_shown(form, "excluded_gpus")
    assert grey(form, "matmul") == {}
    bench.choose(device="all")
    assert is_shown(form, "excluded_gpus")
    assert form.more.editors["device"].control.currentText() == "All GPUs · RTX 4080 + RTX 5070 Ti"
    assert set(grey(form, "matmul")) == {"nvfp4"}, "all must be able to"
    assert editor.control.currentText() == "None"
    bench.add()
    first, second = editor.control.menu.actions()
    first.trigger()
    form.flush()
    bench.hear()
    assert bench.asked(commands.ChangeJob)[-1].settings.excluded_gpus == old.value
    assert editor.control.currentText() == old.title
    assert not second.isEnabled(), "one has to be left"
    assert form.more.editors["device"].control.currentText() == "All GPUs · RTX 5070 Ti"
    assert grey(form, "matmul") == {}
    first.trigger()
    assert editor.control.currentText() == "None"
    bench.choose(excluded_gpus="NVIDIA GeForce RTX 3060")  # of an earlier day
    first.trigger()
    form.flush()
    bench.hear()
    kept = bench.asked(commands.ChangeJob)[-1].settings.excluded_gpus
    assert kept == f"{old.value}, NVIDIA GeForce RTX 3060"


def test_the_folded_rows_are_made_when_they_are_asked_for_and_then_show_the_job(qtbot):
    """They are half of the window's controls, which each change of the theme visits."""
    form = ChoicesForm()
    qtbot.addWidget(form)
    form.show_job(None, JobSettings(model="lite", segment_seconds=7))
    before = len(form.findChildren(QWidget))
    assert form.more.findChild(QWidget, "setting-tile") is None
    form.show_job(None, JobSettings(model="lite", segment_seconds=9))
    form.more.unfold()
    assert len(form.findChildren(QWidget)) > 2 * before
    assert form.more.editors["segment_seconds"].control.value() == 9
    assert is_shown(form, "tile")
    assert not is_shown(form, "seed")


def test_the_format_stands_in_one_line_which_opens_its_choices(bench):
    bench.add()
    line, container = bench.find("fileLine"), bench.find("setting-container")
    assert not container.isVisible()
    assert line.text() == "MP4 · H.264 · High"
    bench.choose(container="mkv", crf=30)
    assert line.text() == "MKV · H.264 · Small file"
    bench.press("fileLine")
    assert container.isVisible()
    assert bench.window.focusWidget() is container


def test_the_keyboard_reaches_the_unfolded_rows_right_after_their_button(qtbot):
    window, form, after = QWidget(), ChoicesForm(), QPushButton()
    column = QVBoxLayout(window)
    column.addWidget(form)
    column.addWidget(after)
    qtbot.addWidget(window)
    window.show()
    form.more.unfold()
    form.more.findChild(QPushButton, "moreChoices").setFocus()
    names = ("model", "container", "codec", "crf")
    controls = [form.findChild(QWidget, f"setting-{name}") for name in names]
    controls += [one.control for one in form.more.editors.values() if one.isVisible()]
    reached = []
    for _control in (*controls, after):
        window.focusNextChild()
        reached.append(window.focusWidget())
    assert reached[: len(controls)] == controls
    assert reached[len(controls)] is after


def test_a_wrong_time_is_marked_where_it_stands_with_the_reason(bench):
    job_id = bench.add()
    bench.window.choices.more.unfold()
    for values, error, wrong in (
        ({"start": "half past"}, SettingsError("not-a-time", text="half past"), "start"),
        ({"start": "1", "stop": "-4"}, SettingsError("negative-time", text="-4"), "stop"),
        ({"start": "99"}, SettingsError("start-after-film", **AFTER), "start"),
        ({"start": "2", "stop": "1"}, SettingsError("end-before-start", start=2, stop=1), "stop"),
        ({"start": "2"}, SettingsError("result-too-small", size="1x1", side=16), ""),
    ):
        bench.choose(**values)
        bench.emit(PlanFailed(job_id=job_id, error=error.info()))
        for name in ("start", "stop"):
            field, reason = bench.find(f"setting-{name}"), bench.find(f"reason-{name}")
            assert bool(field.property("wrong")) is (name == wrong), error
            assert reason.isVisible() is (name == wrong), error
            assert reason.text() == (error.message if name == wrong else "")
            assert (error.message in field.accessibleDescription()) is (name == wrong), error
        bench.choose(start="", stop="")
        for name in ("start", "stop"):
            assert not bench.find(f"setting-{name}").property("wrong"), error
            assert not bench.find(f"reason-{name}").isVisible(), error


def test_a_wrong_time_stays_marked_when_it_is_entered_again(bench):
    job_id = bench.add()
    bench.window.choices.more.unfold()
    field = bench.find("setting-start")
    field.setText("soon")
    field.editingFinished.emit()
    bench.window.choices.flush()
    bench.emit(PlanFailed(job_id=job_id, error=SettingsError("not-a-time", text="soon").info()))
    field.editingFinished.emit()  # Tab
    assert field.property("wrong")
    bench.use_language("zh_CN")
    assert bench.find("reason-start").text() == "“soon”不是时间。"


def test_a_constant_bit_rate_takes_the_place_of_the_quality(qtbot):
    form = ChoicesForm()
    qtbot.addWidget(form)
    form.show_job(None, JobSettings(bit_rate=20.0))
    slider = form.file.findChild(QWidget, "setting-crf")
    assert not slider.isEnabled()
    assert "Constant · 20 Mbit/s" in [one.text() for one in form.file.findChildren(QLabel)]
    form.show_job(None, JobSettings())
    assert slider.isEnabled()


def test_every_format_has_a_line_that_is_shown_where_it_is_chosen(qtbot):
    form = ChoicesForm()
    qtbot.addWidget(form)
    hint = form.file.findChild(QLabel, "formatHint")
    assert hint.isHidden()
    for value in CONTAINERS[1:]:
        form.choose({"container": value})
        assert hint.text() == choice_hint("container", value) != ""
        assert choice_text("container", value) != value


@pytest.mark.parametrize("language", ["en", "zh_CN"])
def test_the_line_of_the_format_is_true_and_never_cut(bench, language):
    bench.use_language(language)
    bench.add()
    line, form = bench.find("fileLine"), bench.window.choices
    title = next(
        one for one in form.findChildren(QLabel) if one.text() == setting_title("container")
    )
    pairs = [*((one, "prores") for one in CONTAINERS), *(("mp4", one) for one in CODECS)]
    for container, codec in pairs:
        form.choose({"container": container, "codec": codec, "crf": 0})
        assert line.sizeHint().width() + title.sizeHint().width() < form.width() - 40
    form.choose({"container": "mkv", "codec": "hevc", "bit_rate": 8.0})
    assert line.text().startswith("MKV · ")
    assert "8" in line.text()
    form.choose({"container": "png"})
    assert " · " not in line.text(), "neither codec nor quality matters"
