"""Fixtures that every test may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.programs import Runner


@pytest.fixture
def program(tmp_path: Path) -> Runner:
    """Runs programs, traced and bare, in a folder of their own."""
    return Runner(tmp_path)
