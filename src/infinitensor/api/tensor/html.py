"""A tensor in a notebook: the corner of its values, and its tiles by device."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infinitensor.api.session.cell import BaseTensor

_COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f")


def draw(tensor: BaseTensor, text: str) -> str:
    """The corner of the values, and the layout: one rectangle a tile, one colour a device."""
    layout = tensor.layout
    head = f"Tensor {tensor.shape} {tensor.dtype}"
    if layout is None or layout.n_tiles > 4096:
        state = "waiting" if tensor._version.is_waiting else str(layout or "on the host")
        return f"<div><b>{head}</b>, {state}<pre>{text}</pre></div>"
    shape = tensor._version.shape
    rows = shape[0] if len(shape) > 1 else 1
    columns = shape[-1] if shape else 1
    boxes = []
    for index in range(layout.n_tiles):
        box = layout.tile(index)
        ylo, yhi = box[0] if len(box) > 1 else (0, 1)
        xlo, xhi = box[-1] if box else (0, 1)
        x, y = 240 * xlo / max(columns, 1), 120 * ylo / max(rows, 1)
        w, h = 240 * (xhi - xlo) / max(columns, 1), 120 * (yhi - ylo) / max(rows, 1)
        colour = _COLOURS[layout.owner(index) % len(_COLOURS)]
        boxes.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" '
            f'fill="{colour}" stroke="white"/>'
        )
    svg = f'<svg width="240" height="120" role="img">{"".join(boxes)}</svg>'
    return f"<div><b>{head}</b>, {layout}<br>{svg}<pre>{text}</pre></div>"
