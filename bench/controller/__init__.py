"""The controller: how soon there are leaders again after a death, and whether everything was finished."""

from bench.controller import campaign, speed
from bench.controller.speed import SIZES

__all__ = ["SIZES", "campaign", "speed"]
