"""Pictures of time: SVG or PNG by the path's suffix. matplotlib is imported when one is drawn."""

from tideglass.job.picture.skew import draw
from tideglass.job.picture.watermarks import WatermarkSeries, draw_watermarks

__all__ = ["WatermarkSeries", "draw", "draw_watermarks"]
