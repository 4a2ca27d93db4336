"""Words that texts for users no longer contain, in English and Chinese, with named exceptions.

Only what a user reads is searched: texts of the window, messages, command line, manual, README.
"""

from __future__ import annotations

import re

# English: video, frame or image, CPU, download, pause, RAM, similarity, computer, fps, Output,
# Format, Custom, Alternatives. Chinese: 方案 (plan), 视频, CPU, 内存, 试处理, 分屏对比.
OLD_WORDS = re.compile(
    r"\b(films?|pictures?|processors?|fetch(?:es|ed|ing)?|halt(?:s|ed|ing)?|main memory|likeness"
    r"|machines?|frames/s|kinds? of file|what comes out|own choice|one step away|somebody|nobody"
    r"|waits for its turn|the queue has ended)(?!\w)"
    r"|处理器|主内存|影片|计划|试做|停住|分割(?!线)",
    re.IGNORECASE,
)

# A kind of video, terms of other fields, and names of places for values or of code.
ALLOWED = re.compile(
    r"film grain|telecined? films?|film (?:material|scans?|stock)|(?:virtual|state) machines?"
    r"|硬件加速 GPU 计划"  # name of a setting of Windows
    r"|multi-?processors?|post-processors?|\{\w+\}|`[^`]*`",
    re.IGNORECASE,
)


def old_words(text: str) -> list[str]:
    """Old words of a text, in their order; [] if it has none but the exceptions."""
    return [found.group() for found in OLD_WORDS.finditer(ALLOWED.sub("", text))]
