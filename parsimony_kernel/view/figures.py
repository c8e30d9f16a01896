"""Charts among the blocks: each shown once, and only what draws without loading anything."""

import hashlib
import json
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from parsimony_kernel.core.outputs import FigureObject
from parsimony_kernel.view.blocks import Artifact, FigureBlock, FigureMention
from parsimony_kernel.view.run_view import ARGUMENT_CHARS, RunView, cut, with_block

SPEC_CHARS = 1 << 20
PICTURE_CHARS = 2 << 20


def figure_of(data: dict[str, Any], title: str) -> FigureObject:
    """``data`` as a figure: one as JSON, or a bare specification."""
    try:
        figure = FigureObject.model_validate(data)
    except ValidationError:
        return FigureObject(title=title, spec=data)
    return figure if figure.title else figure.model_copy(update={"title": title})


def drawn(
    view: RunView, figure: FigureObject, artifact: Artifact | None = None
) -> tuple[RunView, FigureMention]:
    """With ``figure`` among the blocks, once: drawing it again only adds what it lacked."""
    canonical = _canonical(figure.spec)
    told = canonical or figure.png_base64 or figure.svg or f"{figure.title}\n{figure.description}"
    identity = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()
    drawn = FigureBlock(
        key=f"figure-{len(view.closed)}",
        number=view.figures + 1,
        title=cut(figure.title, ARGUMENT_CHARS),
        description=cut(figure.description),
        png_base64=figure.png_base64 if _fits(figure.png_base64) else None,
        svg=figure.svg if _fits(figure.svg) else None,
        published=artifact,
        identity=identity,
    )
    for index, block in enumerate(view.closed):
        if isinstance(block, FigureBlock) and block.identity == identity:
            merged = replace(
                block,
                title=block.title or drawn.title,
                description=block.description or drawn.description,
                png_base64=block.png_base64 or drawn.png_base64,
                svg=block.svg or drawn.svg,
                published=artifact or block.published,
            )
            return with_block(view, index, merged), FigureMention(
                merged.number, merged.title, merged.description
            )
    if canonical and len(canonical) <= SPEC_CHARS and self_contained(figure.spec):
        drawn = replace(drawn, spec=_plain_json(canonical))
    view = replace(view, figures=drawn.number, closed=(*view.closed, drawn))
    return view, FigureMention(drawn.number, drawn.title, drawn.description)


def _fits(picture: str | None) -> bool:
    return bool(picture) and len(picture or "") <= PICTURE_CHARS


def _canonical(spec: dict[str, Any] | None) -> str:
    """The bytes by which two drawings are the same; empty when there are none.

    The schema's address and the embedding options say nothing about the drawing, and the latter
    could make a viewer load something.
    """
    if not spec:
        return ""
    drawn = {key: value for key, value in spec.items() if key not in ("$schema", "usermeta")}
    try:
        return json.dumps(drawn, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):
        return ""


def _plain_json(canonical: str) -> Any:
    """``canonical`` read, without what no message can carry: lone surrogates and NaN."""
    spec = json.loads(canonical, parse_constant=lambda _: None)
    written = json.dumps(spec, ensure_ascii=False)
    return json.loads(written.encode("utf-8", "replace"))


# Members of a specification whose keys are names of the data, not of the grammar.
_DATA = frozenset({"values", "datasets"})
_REACHING_OUT = frozenset({"url", "href"})


def self_contained(spec: dict[str, Any] | None) -> bool:
    """Whether ``spec`` draws without loading anything and holds no link to click."""
    pending: list[Any] = [spec]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            if not _REACHING_OUT.isdisjoint(each):
                return False
            pending.extend(value for key, value in each.items() if key not in _DATA)
        elif isinstance(each, list | tuple):
            pending.extend(each)
    return True
