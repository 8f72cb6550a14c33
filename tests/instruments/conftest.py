"""The installed package is what is tested, as in tests/capture."""

from __future__ import annotations

from tests.capture.conftest import data, installed
from tests.instruments.torch_loaders import items, run

__all__ = ["data", "installed", "items", "run"]
