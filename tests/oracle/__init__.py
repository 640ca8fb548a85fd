"""The oracle: what a query means, computed slowly and obviously (see `interpreter`)."""

from .interpreter import run
from .values import OracleError

__all__ = ["OracleError", "run"]
