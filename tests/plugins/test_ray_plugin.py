"""The plugin for Ray: the runtime environment it requests, and real local clusters whose workers it traces."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import pyio_trace
from pyio_trace.errors import ConfigError

from ..support.programs import Outcome, Runner, clean_environment, succeeded
from ..support.ray import START, surroundings, task_of

plugin = pytest.importorskip("pyio_trace_plugins.ray", reason="the plugins are not installed")
pytestmark = pytest.mark.frameworks("ray")

EXAMPLE = Path(__file__).parents[2] / "examples" / "ray_tasks.py"
SIZE = 1 << 20

# ---- the runtime environment -----------------------------------------------------------


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith("PYIO_TRACE"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_it_adds_to_what_the_program_wants(tmp_path: Path) -> None:
    # GIVEN a runtime environment of the program's own
    theirs = {"working_dir": "/somewhere", "env_vars": {"A": "1", "PYIO_TRACE_STACKS": "off"}}
    ours = plugin.runtime_env(theirs, output=tmp_path / "logs", mode="profile")
    # THEN all of it is still there, and its variables count; the original is unchanged
    assert ours["working_dir"] == "/somewhere"
    assert ours["env_vars"]["A"] == "1"
    assert ours["env_vars"]["PYIO_TRACE_STACKS"] == "off"
    assert ours["env_vars"]["PYIO_TRACE"] == "1"
    assert ours["env_vars"]["PYIO_TRACE_MODE"] == "profile"
    assert theirs == {"working_dir": "/somewhere", "env_vars": {"A": "1", "PYIO_TRACE_STACKS": "off"}}


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("logs", r"/logs/ray-\d+T\d+-\d+-%h-%t-%p\.pyio"),
        ("logs/", r"/logs/ray-\d+T\d+-\d+-%h-%t-%p\.pyio"),
        ("run.pyio", r"/run-%h-%t-%p\.pyio"),
        ("run.parquet", r"/run-%h-%t-%p\.pyio"),
        ("run-%h-%p.parquet", r"/run-%h-%p\.pyio"),
    ],
)
def test_every_worker_has_a_log_of_its_own(tmp_path: Path, output: str, expected: str) -> None:
    named = plugin.runtime_env(output=output)["env_vars"]["PYIO_TRACE_OUTPUT"]
    assert re.fullmatch(re.escape(str(tmp_path)) + expected, named)
    assert Path(named).parent.is_dir()


def test_without_a_word_the_environment_counts_then_the_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "/pyio-ray-" in plugin.runtime_env()["env_vars"]["PYIO_TRACE_OUTPUT"]
    monkeypatch.setenv("PYIO_TRACE_OUTPUT", "/elsewhere/%h-%p.pyio")
    monkeypatch.setenv("PYIO_TRACE_STACKS", "site")
    found = plugin.hook({"env_vars": {"A": "1"}})["env_vars"]
    assert (found["PYIO_TRACE_OUTPUT"], found["PYIO_TRACE_STACKS"]) == ("/elsewhere/%h-%p.pyio", "site")
    assert plugin.hook(plugin.hook(None))["env_vars"] == plugin.hook(None)["env_vars"]


def test_mistakes_are_said_where_they_are_made() -> None:
    with pytest.raises(TypeError, match="did you mean stacks"):
        plugin.runtime_env(stack="off")
    with pytest.raises(ConfigError):
        plugin.runtime_env(mode="everything")


def test_gathering_needs_a_connection(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"before ray\.shutdown"):
        plugin.gather(tmp_path)


# ---- the example: folders of logs, kills, a restarted actor ------------------------------


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """The example, run as it says; its log is the folder of logs."""
    runner = Runner(tmp_path_factory.mktemp("example"))
    with surroundings() as env:
        yield succeeded(runner.command([sys.executable, EXAMPLE, "logs"], env, log="logs"))


def moved(outcome: Outcome) -> Counter[tuple[str | None, str]]:
    """Bytes of the job's data by the task or method that moved them and the operation."""
    found: Counter[tuple[str | None, str]] = Counter()
    for row in outcome.select(layer="posix", op=("read", "write")):
        if row["path"] and re.search(r"/(part-\d|torn)\.bin$", row["path"]):
            task = task_of(outcome, row)
            found[task and task["name"], row["op"]] += row["bytes_moved"]
    return found


@pytest.mark.slow
def test_a_local_job_with_kills_is_told_to_the_byte(example: Outcome) -> None:
    # GIVEN four tasks, an actor that is killed and restarted, a task that is killed in its middle
    # THEN each of their bytes belongs to its task
    assert moved(example) == {
        ("write_part", "write"): 4 * SIZE,
        ("Reader.total", "read"): 2 * 4 * SIZE,
        ("write_and_die", "write"): SIZE // 2,
    }
    # THEN what the example prints says the same
    printed = re.findall(r"^(\S+) +\w+ (\w+) +([\d,]+) bytes$", example.stdout, re.M)
    assert sum(int(size.replace(",", "")) for _, _, size in printed) == sum(moved(example).values())


@pytest.mark.slow
def test_ids_tell_tasks_and_the_actors_two_lives_apart(example: Outcome) -> None:
    rows = example.select(op=("ray.task", "ray.actor_task"))
    spans = [json.loads(row["detail"]) | {"pid": row["pid"]} for row in rows]
    assert len({span["task"] for span in spans if span["name"] == "write_part"}) == 4
    lives = [span for span in spans if span["name"] == "Reader.total"]
    assert len({span["actor"] for span in lives}) == 1
    assert len({span["pid"] for span in lives}) == 2
    died = [row for row in example.select(op="ray.actor_task") if json.loads(row["detail"])["name"] == "Reader.die"]
    assert [row["duration"] for row in died] == [None]


@pytest.mark.slow
def test_only_workers_are_traced(example: Outcome) -> None:
    words = [" ".join(process["argv"]) for process in example.processes if process["followed"] != "no"]
    started = [process for process in example.processes if process["parent"] is None]
    assert started and all("default_worker.py" in " ".join(process["argv"]) for process in started), words
    logs = list(example.path.iterdir())
    assert len(logs) == len(started)  # nothing else has left anything


@pytest.mark.slow
def test_driver_and_workers_share_no_stderr(example: Outcome) -> None:
    assert "pyio-trace" not in example.stdout + example.stderr


# ---- environment only --------------------------------------------------------------------

JOB = (
    START
    + """
    import pyio_trace_plugins.ray
    folder, logs = sys.argv[1:3]

    @ray.remote
    def part(n):
        Path(f"{folder}/part-{n}.bin").write_bytes(bytes(1 << 20))

    if len(sys.argv) > 3:
        ray.init(address=sys.argv[3], log_to_driver=False)
    else:
        start()
    ray.get([part.remote(n) for n in range(4)])
    gathered = pyio_trace_plugins.ray.gather(logs)
    assert gathered == sorted(Path(logs).iterdir()), gathered
    assert pyio_trace_plugins.ray.gather(logs) == gathered
    """
)


@pytest.mark.slow
def test_the_hook_traces_workers_of_an_unchanged_program(program: Runner) -> None:
    # GIVEN a program that says nothing of tracing WHEN the hook is in its environment
    (program.folder / "data").mkdir()
    with surroundings() as env:
        env |= {"RAY_RUNTIME_ENV_HOOK": "pyio_trace_plugins.ray.hook", "TMPDIR": str(program.folder)}
        succeeded(program.bare(JOB, program.folder / "data", program.folder / "logs", env=env))
    # THEN the workers' logs were in the temporary folder, and have been gathered
    assert list(program.folder.glob("pyio-ray-*.pyio"))
    outcome = Outcome(0, "", "", program.folder / "logs")
    assert moved(outcome) == {("part", "write"): 4 * SIZE}


@pytest.mark.slow
def test_a_cluster_started_with_tracing_in_its_environment(program: Runner) -> None:
    # GIVEN `ray start` with PYIO_TRACE=1 WHEN an untraced program runs its tasks there
    (program.folder / "data").mkdir()
    logs = program.folder / "logs"
    logs.mkdir()
    ray = [str(Path(sys.executable).with_name("ray"))]
    with surroundings() as env:
        said = clean_environment(**env, PYIO_TRACE="1", PYIO_TRACE_QUIET="1", PYIO_TRACE_OUTPUT=f"{logs}/%h-%t-%p.pyio")
        started = subprocess.Popen(
            [*ray, "start", "--head", "--port=0", "--num-cpus=2", "--include-dashboard=false", "--block",
             f"--object-store-memory={100 << 20}", "--disable-usage-stats"],
            env=said, cwd=program.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            assert started.stdout is not None
            address = next(found[1] for line in started.stdout if (found := re.search(r"--address='([^']+)'", line)))
            succeeded(program.bare(JOB, program.folder / "data", program.folder / "gathered", address, env=env))
        finally:
            started.terminate()
            started.communicate(timeout=240)
    # THEN its workers have written logs, the command and Ray's services none
    outcome = Outcome(0, "", "", program.folder / "gathered")
    assert moved(outcome) == {("part", "write"): 4 * SIZE}
    for log in logs.iterdir():
        (first, *_) = pyio_trace.open(log).processes().to_pylist()
        assert "default_worker.py" in " ".join(first["argv"])
