"""Fixtures that every test may use."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

# Before they are imported: their assertions say what they compared, as those of tests do.
pytest.register_assert_rewrite("tests.support", "tests.fidelity.machine", "tests.instruments.torch_loaders")

from tests.support import frameworks, sanitizers, selections, surroundings  # noqa: E402
from tests.support.outcomes import Outcomes, passed_in  # noqa: E402
from tests.support.programs import Runner  # noqa: E402

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
    parser.addoption("--quick", action="store_true", help="run what one runs before each commit")
    parser.addoption("--this-python", action="store_true", help="run what CI runs on this Python")
    parser.addoption(
        "--drawn", metavar="TEXT", help="run a quarter of each test's sets of parameters, which the text draws"
    )
    parser.addoption(
        "--passed-in",
        type=Path,
        metavar="FILE",
        help="leave out what passed where --outcomes wrote FILE",
    )
    parser.addoption("--outcomes", type=Path, metavar="FILE", help="write what passed and failed there, for .ci/run")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--outcomes")
    if path and not hasattr(config, "workerinput"):  # pytest-xdist's workers report to the process that started them
        config.pluginmanager.register(Outcomes(path.absolute()))
    config.option.loadscopereorder = False  # pytest-xdist would begin with the files of many tests


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path.suffix != ".py":
        return None
    return selections.none_in(collection_path, config, config.getoption("--this-python")) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    worker = getattr(session.config, "workerinput", None)
    if worker and session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        selections.import_share(session.config, int(worker["workerid"].removeprefix("gw")), worker["workercount"])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    frameworks.check_skipped(item, report)
    return report


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if missing := frameworks.missing(item):
            item.add_marker(pytest.mark.skip(reason=missing))
    if config.getoption("--sanitized"):
        for item in items:
            if reason := sanitizers.reason(item.nodeid):
                item.add_marker(pytest.mark.skip(reason=reason))
    chosen = items
    if config.getoption("--quick"):
        chosen = selections.quick(chosen)
    if config.getoption("--this-python"):
        chosen = selections.of_python(chosen)
    if text := config.getoption("--drawn"):
        chosen = selections.drawn(chosen, text)
    if elsewhere := config.getoption("--passed-in"):
        passed = passed_in(elsewhere)
        chosen = [item for item in chosen if item.nodeid not in passed]
    if chosen is not items:
        config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
        items[:] = chosen
    if hasattr(config, "workerinput"):
        items[:] = selections.long_first(items)
