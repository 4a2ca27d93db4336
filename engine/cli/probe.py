"""`probe`: what a file is."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.cli import formatting
from engine.cli.context import DONE, Context


def run(args: argparse.Namespace, context: Context) -> int:
    """Show the picture, its times and colours, and all other streams."""
    media = context.services.probe(Path(args.input))
    if context.console.json:
        context.console.data(media)
    else:
        context.console.say(formatting.media_words(media))
    return DONE
