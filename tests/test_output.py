"""Names of logs: the default, the patterns, and that only our own logs are overwritten."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyio_trace.config import Config, output_paths
from pyio_trace.errors import ConfigError
from pyio_trace.join.pack import pack
from pyio_trace.log import layout
from pyio_trace.output import expand_pattern, log_paths, script_name
from tests.support.logwriter import LogWriter


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_default_name(here: Path) -> None:
    live, final = output_paths(Config(), "some/train.py")
    assert final is not None
    assert re.fullmatch(rf"{here}/pyio-train-\d{{8}}T\d{{6}}-{os.getpid()}\.parquet", final)
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
    assert refused("nowhere/run.pyio") == "no-such-folder"


def test_places_where_no_log_can_be(here: Path) -> None:
    os.mkfifo(here / "queue.pyio")  # opening it would wait for somebody to write
    assert refused("queue.pyio") == "not-a-file"
    assert refused("/dev/null") == "not-a-file"
    assert refused("x" * 5000) == "unwritable-log"


def test_a_folder_that_is_gone(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "gone").mkdir()
    monkeypatch.chdir(here / "gone")
    (here / "gone").rmdir()
    assert refused("run.pyio") == "no-such-folder"
    assert log_paths(str(here / "run.pyio"), "x.py") == (f"{here}/run.pyio", None)
    with pytest.raises(ConfigError, match="whole path"):
        Config(exclude="a/b")


def test_a_log_that_is_being_written_is_refused(here: Path) -> None:
    code = "import mmap, sys; f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 0); print('mapped', flush=True)"
    code += "; input()"
    path = LogWriter().save(here / "run.pyio")
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None and owner.stdout.readline() == "mapped\n"
        with path.open("r+b") as file:
            file.seek(int(layout.HEADER.fields["owner_pid"][1]))
            file.write(owner.pid.to_bytes(4, "little"))
        assert refused("run.pyio") == "log-in-use"
        owner.communicate("\n")
    log_paths("run.pyio", "x.py")
