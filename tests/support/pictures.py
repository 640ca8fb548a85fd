"""Pictures of the page for the documents, written where TIDEGLASS_PICTURES=FOLDER asks for them."""

from __future__ import annotations

import io
import os
from pathlib import Path

from support.browser import Tab


def keep(tab: Tab, name: str, part: str | None = None, *, whole: bool = False) -> None:
    """Write a picture, where pictures are asked for; with 255 colours it has a fourth of its size."""
    folder = os.environ.get("TIDEGLASS_PICTURES")
    if folder is None:
        return
    from PIL import Image

    taken = tab.page.screenshot(full_page=whole) if part is None else tab.page.locator(part).screenshot()
    shown = Image.open(io.BytesIO(taken)).convert("RGB")
    few = shown.quantize(255, Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)
    few.save(Path(folder) / f"{name}.png", optimize=True)
