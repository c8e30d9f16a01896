"""Images of a step's charts, for models that accept images."""

import base64
import binascii
import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from parsimony_kernel.core.conversation import LONGEST_SIDE, MARK, picture_message, size_of
from parsimony_kernel.core.outputs import FigureObject

# Per step. Every chart is described in words too.
MOST_PICTURES = 3

_SCALED = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}"><image width="{0}" '
    'height="{1}" preserveAspectRatio="none" href="data:image/png;base64,{2}"/></svg>'
)

_log = logging.getLogger(__name__)


def picture_messages(
    figures: Iterable[FigureObject], messages: Sequence[Any]
) -> list[dict[str, Any]]:
    """Build an image message for each chart that can be rendered and isn't in ``messages`` yet.

    The first call in a process can take seconds.
    """
    known = {each["content"] for each in messages if MARK in str(each.get("content"))}
    made: list[dict[str, Any]] = []
    for figure in figures:
        source = json.dumps(figure.spec, sort_keys=True) if figure.spec else figure.png_base64 or ""
        caption = picture_message(figure.title, source, b"")["content"]
        if source and caption not in known and (png := drawn(figure)) is not None:
            known.add(caption)
            made.append(picture_message(figure.title, source, png))
    return made


def drawn(figure: FigureObject) -> bytes | None:
    """Render ``figure`` as a PNG of at most ``LONGEST_SIDE`` pixels per side; ``None`` if it can't
    be rendered."""
    from parsimony_kernel.artifacts.codecs import render_png  # deferred: pandas

    try:
        given, spec = figure.png_base64, figure.spec or {}
        png = base64.b64decode(given, validate=True) if given else render_png(spec)[0]
        return None if png is None else _small_enough(png)
    except (binascii.Error, ImportError, ValueError):
        _log.debug("a chart cannot be drawn for the model", exc_info=True)
        return None


def _small_enough(png: bytes) -> bytes | None:
    width, height = size_of(png)
    if max(width, height) <= LONGEST_SIDE:
        return png if width and height else None
    import vl_convert  # deferred: it starts a JavaScript engine

    scale, pixels = LONGEST_SIDE / max(width, height), base64.b64encode(png).decode("ascii")
    size = (max(1, int(width * scale)), max(1, int(height * scale)))
    smaller: bytes = vl_convert.svg_to_png(_SCALED.format(*size, pixels))
    return smaller
