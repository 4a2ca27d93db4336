from __future__ import annotations

import dataclasses

from PySide6.QtWidgets import QLabel, QWidget

from engine.protocol.gpu_reading import GpuProcess, GpuReading
from tests.app.conftest import Bench
from tests.app.plan.test_plan_card import plan, say_plan
from tests.helpers.plans import on_gpu

GPU = GpuReading(
    name="NVIDIA GeForce RTX 5070 Ti",
    total_mb=16303,
    ours_mb=10240,
    others_mb=2048,
    load_percent=98,
    temperature_c=67,
    driver="581.29",
    power_w=212,
    link="PCIe 5.0 x16",
    processes=(GpuProcess(name="chrome.exe", mb=2150), GpuProcess(name="dwm.exe", mb=None)),
)


def hear(bench: Bench, gpu: GpuReading | None) -> None:
    bench.engine.emit_telemetry(gpu)
    bench.hear()


def name_of_gauge(bench: Bench) -> QLabel:
    found = bench.find("videoMemoryName")
    assert isinstance(found, QLabel)
    return found


def test_without_a_card_there_is_no_gauge_of_its_memory(bench: Bench) -> None:
    hear(bench, None)
    assert not bench.find("videoMemory").isVisible()


def test_memory_of_the_card_with_who_holds_it(bench: Bench) -> None:
    hear(bench, GPU)
    gauge = bench.find("videoMemory")
    assert gauge.isVisible()
    assert name_of_gauge(bench).text() == "VRAM"
    tip = gauge.toolTip()
    for text in ("Upreel 10.0 GB, others 2.0 GB", "chrome.exe: 2.1 GB", "dwm.exe"):
        assert text in tip
    assert "spilled" not in tip
    assert "planned" not in tip


def test_what_spilled_is_said_in_words_and_only_while_it_is_so(bench: Bench) -> None:
    hear(bench, dataclasses.replace(GPU, spilled_mb=1229))
    name = name_of_gauge(bench)
    assert (name.text(), name.property("kind")) == ("1.2 GB spilled", "spilled")
    assert "very slow" in bench.find("videoMemory").toolTip()
    hear(bench, GPU)
    assert (name.text(), name.property("kind")) == ("VRAM", "secondary")


def test_the_planned_peak_is_that_of_the_card(bench: Bench) -> None:
    say_plan(bench, on_gpu(plan(), needed=11.4))
    assert bench.program.telemetry.planned_bytes == 0  # nothing runs
    bench.do("start")
    hear(bench, GPU)
    assert "planned peak 11.4 GB" in bench.find("videoMemory").toolTip()


def test_power_link_and_driver_stand_in_the_tool_tip_of_the_load(bench: Bench) -> None:
    hear(bench, GPU)
    tips = {w.toolTip() for w in bench.window.top.findChildren(QWidget)}
    assert any("212 W" in t and "PCIe 5.0 x16" in t and "581.29" in t for t in tips)
