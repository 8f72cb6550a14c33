"""Which findings are left out, and what a pyproject.toml may say."""

from __future__ import annotations

import os
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from pyio_trace.errors import ConfigError
from pyio_trace.insights import registry, settings, source_files
from pyio_trace.insights.comments import Comments
from pyio_trace.insights.finding import Site
from tests.insights.test_formats import HOSTILE, PROGRAM
from tests.support.programs import Runner, succeeded

pytestmark = pytest.mark.once
RULES = registry.found(third_party=False)


@pytest.fixture
def log(program: Runner, monkeypatch: pytest.MonkeyPatch) -> str:
    path = str(succeeded(program.traced(PROGRAM)).path)
    monkeypatch.chdir(program.folder)
    return path


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["insights", *arguments]) == 0
    return capsys.readouterr().out


SUPPRESSED = "No findings.\n\n1 finding suppressed by settings or comments.\n"


@pytest.mark.parametrize("ignored", ["sync-per-write", "sync-per-write:*.txt", "*:log.*", "sync-per-write:program.py"])
def test_ignored_by_an_option(log: str, ignored: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, log, "--ignore", ignored) == SUPPRESSED


def test_not_ignored(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "sync-per-write" in shown(capsys, log, "--ignore", "sync-per-write:*.h5", "--ignore", "stat-storm")


@pytest.mark.parametrize("comment", ["ignore[sync-per-write]", "ignore[stat-storm, sync-per-write]", "ignore"])
def test_ignored_on_its_line(program: Runner, comment: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = PROGRAM.replace("os.fsync(f.fileno())", f"os.fsync(f.fileno())  # pyio_trace: {comment}")
    log = str(succeeded(program.traced(text)).path)
    assert shown(capsys, log) == SUPPRESSED


def test_another_one_ignored_on_its_line(program: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    text = PROGRAM.replace("os.fsync(f.fileno())", "os.fsync(f.fileno())  # pyio_trace: ignore[stat-storm]")
    assert "sync-per-write" in shown(capsys, str(succeeded(program.traced(text)).path))


def test_sources_are_read_with_care(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a log that names a FIFO, a device, a large file, a folder and a file that is not there as source files
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_text("# pyio_trace: ignore\n" + "x" * (5 << 20))
    places = [tmp_path / "fifo", tmp_path / "large", tmp_path, tmp_path / "none", "/dev/zero", "relative.py", "/a\0b"]
    # WHEN their comments are looked for THEN nothing hangs, and nothing is suppressed
    for place in places:
        assert not Comments().suppress(replace(HOSTILE, sites=[Site(str(place), 1)]))
    # AND nothing of what the kernel makes up is opened, as reading it can have effects
    opened: list[str] = []
    monkeypatch.setattr(source_files, "trusted_content", lambda path, most: opened.append(path))
    for made_up in ("/proc/self/status", "/sys/kernel/uevent_seqnum", "/dev/null", "/proc/version"):
        assert not Comments().suppress(replace(HOSTILE, sites=[Site(made_up, 1)]))
    assert opened == []
    assert not Comments().suppress(replace(HOSTILE, sites=[]))
    assert not Comments().suppress(replace(HOSTILE, sites=[Site(__file__, 1 << 29)]))


def test_of_sources_only_comments_are_kept(tmp_path: Path) -> None:
    # GIVEN many large sources with a comment in each, and one with nothing but comments
    text = "x\n" * (1 << 20) + "x  # pyio_trace: ignore\n"
    places = [tmp_path / f"{number}.py" for number in range(40)]
    for place in places:
        place.write_text(text)
    (tmp_path / "comments.py").write_text("# pyio_trace: ignore[a, b] # pyio_trace: ignore\n" * 50_000)
    # WHEN a log with findings in all of them is looked at
    many = Comments()
    tracemalloc.start()
    found = [many.suppress(replace(HOSTILE, sites=[Site(str(place), (1 << 20) + 1)])) for place in places]
    own = [replace(HOSTILE, slug=slug, sites=[Site(str(tmp_path / "comments.py"), 9)]) for slug in "abc"]
    first = Comments()
    slugs = [first.suppress(finding) for finding in own]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # THEN those count whose sources are not beyond the bound, and memory is that of one source
    assert found[:30] == [True] * 30 and not found[-1] and slugs == [True, True, False]
    assert peak < 16 << 20


def test_settings_of_a_project(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN a project's settings WHEN findings are made in its folder THEN they count
    Path("pyproject.toml").write_text('[tool.pyio_trace.insights]\nignore = ["sync-per-write:*.txt"]\n')
    assert shown(capsys, log) == SUPPRESSED
    Path("pyproject.toml").write_text("[tool.pyio_trace.insights.sync-per-write]\nsyncs = 51\n")
    assert shown(capsys, log).startswith("No findings.\n")
    Path("pyproject.toml").write_text("[tool.pyio_trace.insights.severity]\nwarning_share = 0\nwarning_ms = 0\n")
    assert "1  WARNING" in shown(capsys, log)


def test_a_traced_program_ignores_them(program: Runner) -> None:
    # GIVEN settings of findings WHEN a program is traced beside them THEN capture's options are not confused by them
    (program.folder / "pyproject.toml").write_text("[tool.pyio_trace.insights.sync-per-write]\nsyncs = 51\n")
    assert succeeded(program.traced(PROGRAM)).stderr == ""


@pytest.mark.parametrize(
    ("text", "slug", "words"),
    [
        ("insights = 3", "bad-pyproject", "is not a table"),
        ('insights.ignore = "stat-storm"', "bad-value", "write a list"),
        ("insights.ignore = [3]", "bad-value", "write a list"),
        ('insights.ignore = ["stat-strom"]', "bad-value", "did you mean stat-storm?"),
        ('insights.ignore = ["*"]', "bad-value", "no finding '*'"),
        ('insights.ignore = ["stat-storm:"]', "bad-value", "no pattern"),
        ('insights.ignore = ["\\u001b"]', "bad-value", "control character"),
        ("insights.stat-strom.calls = 3", "bad-value", "did you mean stat-storm?"),
        ("insights.stat-storm = 3", "bad-value", "write a table of thresholds"),
        ("insights.stat-storm.call = 3", "unknown-option", "did you mean calls?"),
        ('insights.stat-storm.calls = "3"', "bad-value", "write a number"),
        ("insights.stat-storm.calls = true", "bad-value", "write a number"),
        ("insights.stat-storm.calls = -1", "bad-value", "write a number"),
        ("insights.stat-storm.calls = nan", "bad-value", "write a number"),
        ("insights.stat-storm.calls = 1" + "0" * 400, "bad-value", "write a number"),
        ("insights.severity.worst = 3", "unknown-option", "no threshold 'worst'"),
    ],
)
def test_wrong_settings(tmp_path: Path, text: str, slug: str, words: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.pyio_trace]\n{text}\n")
    with pytest.raises(ConfigError) as raised:
        settings.load(RULES, str(tmp_path))
    assert raised.value.slug == slug and words in str(raised.value) and "\x1b" not in str(raised.value)


def test_no_settings(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.other]\n")
    assert settings.load(RULES, str(tmp_path)) == settings.Settings()
