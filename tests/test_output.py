"""Names of logs: the default, the patterns, and that only our own logs are overwritten."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyio_trace.config import Config
from pyio_trace.errors import ConfigError
from pyio_trace.existing_files import BOOT_ID_AT, BUDGET_AT, NAMESPACE_AT, OWNER_PID_AT
from pyio_trace.join.pack.packer import pack
from pyio_trace.log import layout
from pyio_trace.output import expand_pattern, log_paths, numbered, script_name
from tests.support.logwriter import LogWriter


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_default_name(here: Path) -> None:
    live, final = log_paths(Config().output, "some/train.py")
    assert final is not None
    host = re.escape(os.uname().nodename)
    assert re.fullmatch(rf"{here}/pyio-train-{host}-\d{{8}}T\d{{6}}-{os.getpid()}\.parquet", final)
    assert live == final.removesuffix(".parquet") + ".pyio"


def test_explicit_names(here: Path) -> None:
    assert log_paths("run.pyio", "x.py") == (f"{here}/run.pyio", None)
    assert log_paths("run.parquet", "x.py") == (f"{here}/run.pyio", f"{here}/run.parquet")
    (here / "logs").mkdir()
    live, final = log_paths("logs", "x.py")
    assert final is not None and final.startswith(f"{here}/logs/pyio-x-") and live.endswith(".pyio")


def test_patterns() -> None:
    environ = {"PBS_JOBID": "12/34"}
    assert expand_pattern("%h-%p-%s-%j%%-%%p", "a/b.py", environ) == f"{os.uname().nodename}-{os.getpid()}-b-12_34%-%p"
    assert re.fullmatch(r"\d{8}T\d{6}", expand_pattern("%t", "", {}))
    assert expand_pattern("%j", "", {}) == "nojob"
    assert expand_pattern("%n-%j", "", {"SLURMD_NODENAME": "n/1", "RAY_JOB_ID": "02"}) == "n_1-02"
    assert expand_pattern("%n", "", {}) == os.uname().nodename.partition(".")[0]
    for wrong in ("%x", "run%"):
        with pytest.raises(ConfigError) as problem:
            expand_pattern(wrong, "x.py", {})
        assert problem.value.slug == "bad-pattern"


@pytest.mark.parametrize(("script", "name"), [("a/b c.py", "b_c"), ("-c", "c"), ("pkg.mod", "pkg.mod"), ("dir/", "dir"),
                                              ("", "python"), ("-", "command"), ("x" * 300, "x" * 100)])  # fmt: skip
def test_script_names(script: str, name: str) -> None:
    assert script_name(script) == name


def refused(name: str) -> str:
    with pytest.raises(ConfigError) as problem:
        log_paths(name, "x.py")
    assert "\n" not in str(problem.value)
    return problem.value.slug


def test_only_logs_are_overwritten(here: Path) -> None:
    LogWriter().save(here / "live.pyio")
    pack(here / "live.pyio", here / "packed.parquet")
    (here / "empty.pyio").touch()
    for name in ("live.pyio", "packed.parquet", "empty.pyio", "new.pyio"):
        log_paths(name, "x.py")
    (here / "thesis.txt").write_text("years of work")
    pq.write_table(pa.table({"a": [1]}), here / "theirs.parquet")
    (here / "short.parquet").write_bytes(b"PAR1")
    assert [refused(name) for name in ("thesis.txt", "theirs.parquet", "short.parquet")] == ["log-exists"] * 3
    (here / "other.pyio").write_text("not a log: where the live log of other.parquet would go")
    assert refused("other.parquet") == "log-exists"
    assert refused("thesis.txt/run.pyio") == "no-such-folder"


def test_places_where_no_log_can_be(here: Path) -> None:
    os.mkfifo(here / "queue.pyio")  # opening it would wait for somebody to write
    assert refused("queue.pyio") == "not-a-file"
    assert refused("/dev/null") == "not-a-file"
    assert refused("x" * 5000) == "unwritable-log"


def test_a_missing_folder_is_made(here: Path) -> None:
    assert log_paths("logs/today/run.pyio", "x.py") == (f"{here}/logs/today/run.pyio", None)
    live, final = log_paths("more/", "x.py")
    assert final is not None and final.startswith(f"{here}/more/pyio-x-") and live.endswith(".pyio")
    assert (here / "logs/today").is_dir() and (here / "more").is_dir()
    log_paths("asked/run.pyio", "x.py", make_folder=False)
    assert not (here / "asked").exists()


def test_a_folder_that_is_gone(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "gone").mkdir()
    monkeypatch.chdir(here / "gone")
    (here / "gone").rmdir()
    assert refused("run.pyio") == "no-such-folder"
    assert log_paths(str(here / "run.pyio"), "x.py") == (f"{here}/run.pyio", None)
    with pytest.raises(ConfigError, match="whole path"):
        Config(exclude="a/b")


def test_a_log_that_is_being_written_is_refused(here: Path) -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    writer, other, namespace = LogWriter(boot_id=boot), LogWriter(boot_id=boot), os.stat("/proc/self/ns/pid")
    writer.header["budget"] = other.header["budget"] = 1 << 12  # not more than the files' sizes: their runs go on
    writer.header["namespace_device"], writer.header["namespace_inode"] = namespace.st_dev, namespace.st_ino
    code = "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.flock(f, fcntl.LOCK_SH); print('held', flush=True)"
    code += "; input()"
    path = writer.save(here / "run.pyio")
    other.save(here / "elsewhere.pyio")
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None and owner.stdout.readline() == "held\n"
        assert refused("run.pyio") == refused("run.parquet") == "log-in-use"
        path.rename(here / f"run-{os.getpid()}.pyio")
        assert log_paths("run-%p.pyio", "x.py")[0] == f"{here}/run-{os.getpid()}-2.pyio"
        path.with_name(f"run-{os.getpid()}.pyio").rename(path)
        # BUT not one of another container: two runs there may well have one name, and the second gets a number
        with (here / "elsewhere.pyio").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            log_paths("elsewhere.pyio", "x.py")
        owner.communicate("\n")
    log_paths("run.pyio", "x.py")


@pytest.mark.parametrize("pattern", [None, "logs/", "run-%p.parquet", "%t.parquet", "run-%p.pyio"])
def test_a_name_that_was_to_be_new_replaces_nothing(
    here: Path, pattern: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a log of a container that had the same host, process id and second, and has ended
    monkeypatch.setattr("time.strftime", lambda _: "20261125T120000")
    live, final = log_paths(pattern, "x.py")
    LogWriter().save(Path(live))
    if final is not None:
        pack(Path(live), Path(final))
        os.unlink(live)
    # WHEN the next one names its log THEN it is another name
    names = log_paths(pattern, "x.py")
    assert names == next(numbered(live, final)) and not {live, final} & set(names) - {None}


def test_where_the_header_has_it() -> None:
    names = ("budget", "owner_pid", "boot_id", "namespace_device", "namespace_inode")
    places = [layout.HEADER.fields[name][1] for name in names]
    assert places == [BUDGET_AT, OWNER_PID_AT, BOOT_ID_AT, NAMESPACE_AT, NAMESPACE_AT + 8]


def test_numbers_for_names_that_are_taken(here: Path) -> None:
    (here / "run-2.parquet").touch()
    (here / "run-4.pyio").symlink_to("nowhere")
    names = numbered(str(here / "run.pyio"), str(here / "run.parquet"))
    assert [next(names) for _ in range(2)] == [
        (f"{here}/run-{number}.pyio", f"{here}/run-{number}.parquet") for number in (3, 5)
    ]
    assert next(numbered(str(here / "run.pyio"), None)) == (f"{here}/run-2.pyio", None)
