"""Fixtures of the fault tests: the installed package, and data to read."""

from tests.capture.conftest import data, installed

__all__ = ["data", "installed"]
