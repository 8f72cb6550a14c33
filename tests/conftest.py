"""Fixtures that every test may use."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support import frameworks, pythons, quick, sanitizers, surroundings
from tests.support.outcomes import Outcomes
from tests.support.programs import Runner

surroundings.reset()

# How long an example takes says how busy the machine is.
settings.register_profile("any speed", deadline=None)
settings.load_profile("any speed")


@pytest.fixture
def program(tmp_path: Path) -> Runner:
    """Runs programs, traced and bare, in a folder of their own."""
    return Runner(tmp_path)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sanitized", action="store_true", help="skip what cannot run under the address sanitizer (sanitizers.toml)"
    )
    parser.addoption("--quick", action="store_true", help="what one runs before each commit (tests/support/quick.py)")
    parser.addoption("--outcomes", type=Path, metavar="FILE", help="write what passed and failed there, for .ci/run")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--outcomes")
    if path and not hasattr(config, "workerinput"):  # pytest-xdist's workers report to the process that started them
        config.pluginmanager.register(Outcomes(path.absolute()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    frameworks.check_skipped(item, report)
    return report


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        pythons.mark(item)
        if missing := frameworks.missing(item):
            item.add_marker(pytest.mark.skip(reason=missing))
    if config.getoption("--sanitized"):
        for item in items:
            if reason := sanitizers.reason(item.nodeid):
                item.add_marker(pytest.mark.skip(reason=reason))
    if config.getoption("--quick"):
        items[:], left_out = quick.choose(items)
        config.hook.pytest_deselected(items=left_out)
