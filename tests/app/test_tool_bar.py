"""The bar at the top where room is short."""

from dataclasses import replace
from itertools import product

from tests.app.test_gauges import GPU
from tests.app.test_narrow_window import settle


def test_the_gpu_is_named_in_whole_words_in_a_narrow_window(bench):
    for case in product((None, GPU), ("en", "zh_CN"), (False, True)):
        gpu, language, is_idle = case
        bench.program.use_language(language)
        bench.window.top.show_gpu_idle(is_idle)
        bench.measure(gpu)
        for width in (910, 1024, 1180, 1440):
            bench.window.resize(width, 432)
            settle()
            shown = bench.find("gpuText").text()
            assert shown, (case, width)
            assert "…" not in shown, (case, width)
        assert shown == bench.find("gpuText").whole, case


def test_a_pretended_gpu_fills_the_gauges_and_is_called_so(bench):
    bench.measure(replace(GPU, is_pretended=True))
    assert bench.find("gpuText").whole.endswith(" · simulated")
    assert bench.find("videoMemory").isVisible()
    assert "does not have it" in bench.find("gpuChip").toolTip()
