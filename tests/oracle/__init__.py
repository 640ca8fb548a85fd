"""The oracle: what a query means, computed slowly and obviously (see `interpreter`)."""

from .interpreter import metrics, run
from .values import OracleError

__all__ = ["OracleError", "metrics", "run"]
