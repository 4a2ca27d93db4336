import dataclasses

from PySide6.QtWidgets import QWidget

from engine.protocol.gpu_reading import GpuProcess, GpuReading
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


def test_memory_of_the_card_with_who_holds_it_and_how_much_spilled(bench):
    gauge, name = bench.find("videoMemory"), bench.find("videoMemoryName")
    bench.measure(None)
    assert not gauge.isVisible()
    bench.measure(dataclasses.replace(GPU, spilled_mb=1229))
    assert (name.text(), name.property("kind")) == ("1.2 GB spilled", "spilled")
    assert "very slow" in gauge.toolTip()
    bench.measure(GPU)
    assert gauge.isVisible()
    assert (name.text(), name.property("kind")) == ("VRAM", "secondary")
    tip = gauge.toolTip()
    for text in ("Upreel 10.0 GB, others 2.0 GB", "chrome.exe: 2.1 GB", "dwm.exe"):
        assert text in tip
    assert "spilled" not in tip
    assert "planned" not in tip
    tips = {w.toolTip() for w in bench.window.top.findChildren(QWidget)}
    assert any("212 W" in t and "PCIe 5.0 x16" in t and "581.29" in t for t in tips)


def test_the_planned_peak_is_that_of_the_card(bench):
    assert bench.program.telemetry.planned_bytes == 0
    say_plan(bench, on_gpu(plan(), needed=11.4))
    bench.measure(GPU)
    assert "planned peak 11.4 GB" in bench.find("videoMemory").toolTip(), "of the video that waits"
    bench.do("start")
    bench.measure(GPU)
    assert "planned peak 11.4 GB" in bench.find("videoMemory").toolTip()
