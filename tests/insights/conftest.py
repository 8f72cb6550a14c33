"""Fixtures of the tests of `insights --verify`."""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Callable

import pytest

from pyio_trace.insights import trials, verify
from pyio_trace.insights.trials import interruptions, rounds
from tests.support.waiting import PATIENCE


@pytest.fixture
def own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials in this process measure its own time on a processor, and may take as long as they need.

    So neither the load of the machine nor its disk decides whether a remedy helps: only how much there is to do with
    it and without it, which differs by a factor of several in each test that asserts a gain.
    """
    for found in pkgutil.iter_modules(trials.__path__):
        module = importlib.import_module(f"{trials.__name__}.{found.name}")
        if hasattr(module, "perf_counter_ns"):
            monkeypatch.setattr(module, "perf_counter_ns", time.process_time_ns)
    patient: Callable[[float, str], object] = lambda _, late: interruptions.limited(PATIENCE, late)  # noqa: E731
    for user in (rounds, verify):
        monkeypatch.setattr(user, "limited", patient)
