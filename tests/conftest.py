"""Fixtures that every test may use."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.programs import Runner

# A job in the background of a shell ignores Ctrl-C, and so would every program that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says how busy the machine is.
settings.register_profile("any speed", deadline=None)
settings.load_profile("any speed")


@pytest.fixture
def program(tmp_path: Path) -> Runner:
    """Runs programs, traced and bare, in a folder of their own."""
    return Runner(tmp_path)
