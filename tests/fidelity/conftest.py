"""The harness traces programs with the installed package, as the capture's tests do."""

from __future__ import annotations

from tests.capture.conftest import installed

__all__ = ["installed"]
