"""Long searches: every run of the tests does a bounded share of them, and `tox -e soak` all of it.

Kills at random instants, fuzzed logs, generated programs, whole-range values in a
live log, and reruns under load find more the longer they go on; so do other
projects' own tests, traced.
"""

from __future__ import annotations

import os

SOAK = os.environ.get("TEST_SOAK") == "1"


def rounds(share: int, soak: int) -> int:
    """How many of them in this run.  share: in every run; soak: in `tox -e soak`."""
    return soak if SOAK else share
