"""The harness traces programs with the installed package, as the capture's tests do."""

from __future__ import annotations

import pytest

from tests.capture.conftest import installed

pytest.register_assert_rewrite("tests.fidelity.machine")

__all__ = ["installed"]
