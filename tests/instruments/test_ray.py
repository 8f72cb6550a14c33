"""Ray's tasks and actors, ray.data and spilled objects: one real local Ray, started by a traced program."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from pyio_trace.analysis.summary.summarize import summarize

from ..support.programs import Outcome, Row, Runner, succeeded
from ..support.ray import START, surroundings, task_of

pytest.importorskip("pandas", reason="ray.data needs pandas")
pytestmark = [pytest.mark.frameworks("ray"), pytest.mark.slow]  # a cluster is started and stopped

SIZE = 1 << 20
PROGRAM = (
    START
    + """
    import asyncio, json, threading
    folder, size = sys.argv[1], int(sys.argv[2])

    def write(name):
        with open(f"{folder}/{name}", "wb") as file:
            for _ in range(16):
                file.write(bytes(size // 16))
        return ray.get_runtime_context().get_task_id()

    @ray.remote
    def part(n):
        return write(f"part-{n}")

    @ray.remote(max_retries=0)
    def dies():
        with open(f"{folder}/torn", "wb", buffering=0) as file:
            file.write(bytes(size // 2))
            os.kill(os.getpid(), signal.SIGKILL)

    @ray.remote(max_retries=1, retry_exceptions=True)
    def fails():
        write("failed")
        raise ValueError("as it should")

    @ray.remote(num_returns="streaming")
    def generated():
        yield write("generated-0")
        yield write("generated-1")

    @ray.remote
    def threaded():
        thread = threading.Thread(target=write, args=("thread",))
        thread.start()
        thread.join()

    @ray.remote
    class Reader:
        def __init__(self):
            write("init")
        def total(self):
            return sum(len(Path(f"{folder}/part-{n}").read_bytes()) for n in range(4))
        def whoami(self):
            context = ray.get_runtime_context()
            return context.get_actor_id()

    @ray.remote
    class Coroutines:
        async def twice(self, n):
            first = write(f"async-{n}-0")
            await asyncio.sleep(0.05)
            assert write(f"async-{n}-1") == first
            return first
        async def steps(self):
            for step in range(2):
                yield write(f"steps-{step}")
                await asyncio.sleep(0.01)
        def plain(self):
            write("plain")

    @ray.remote(max_concurrency=3)
    class Threads:
        def twice(self, n):
            first = write(f"threads-{n}-0")
            time.sleep(0.05)
            return write(f"threads-{n}-1")

    start()
    told = {"parts": ray.get([part.options(name=f"part number {n}").remote(n) for n in range(4)])}
    reader = Reader.remote()
    assert ray.get(reader.total.remote()) == 4 * size
    told["actor"] = ray.get(reader.whoami.remote())
    try:
        ray.get(dies.remote())
    except ray.exceptions.WorkerCrashedError:
        told["died"] = True
    try:
        ray.get(fails.remote())
    except ValueError as problem:
        told["failed"] = str(problem)
    told["generated"] = [ray.get(ref) for ref in generated.remote()]
    ray.get(threaded.remote())
    many = Coroutines.remote()
    told["async"] = ray.get([many.twice.remote(n) for n in range(3)])
    told["steps"] = [ray.get(ref) for ref in many.steps.options(num_returns="streaming").remote()]
    ray.get(many.plain.remote())
    threads = Threads.remote()
    told["threads"] = ray.get([threads.twice.remote(n) for n in range(3)])

    import pandas
    os.mkdir(f"{folder}/csv")
    for n in range(3):
        pandas.DataFrame({"n": range(1000)}).to_csv(f"{folder}/csv/{n}.csv", index=False)
    rows = ray.data.read_csv(f"{folder}/csv")
    assert rows.sum("n") == 3 * sum(range(1000))
    rows.write_csv(f"{folder}/written")

    block = bytes(20 << 20)
    kept = [ray.put(block) for _ in range(8)]
    told["spilled"] = sum(len(ray.get(ref)) for ref in kept)
    print(json.dumps(told))
    """
)


WAITING = (
    START
    + """
    @ray.remote
    def slow():
        time.sleep(0.4)
    start()
    begin = time.perf_counter_ns()
    ray.get([slow.remote(), slow.remote()])
    print(time.perf_counter_ns() - begin)
    """
)


def test_what_a_program_waits_for(program: Runner) -> None:
    # GIVEN a program that waits for two tasks, which sleep at once
    with surroundings() as env:
        outcome = succeeded(program.traced(WAITING, env=env))
    # THEN the wait is a call of its own, at its line, as long as the tasks at least
    [row] = outcome.select(op="ray.get", process=0)
    assert row["op_role"] == "wait" and ":14:" in row["site"]
    assert 350_000_000 <= row["duration"] <= int(outcome.stdout)
    # AND what the program does is to wait, and not to compute
    overview = summarize(outcome.log).overview
    assert overview is not None and overview.processes[0].split.waiting_ns >= row["duration"] * 9 // 10


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    folder = tmp_path_factory.mktemp("ray")
    (folder / "data").mkdir()
    with surroundings() as env:
        yield succeeded(Runner(folder).traced(PROGRAM, folder / "data", SIZE, env=env))


@pytest.fixture(scope="module")
def told(job: Outcome) -> Row:
    """What the program says it did."""
    found: Row = json.loads(job.stdout.splitlines()[-1])
    return found


def written(job: Outcome, name: str) -> list[Row]:
    """The POSIX writes of one of the program's files."""
    rows = job.select(layer="posix", op="write", path=job.path.parent / "data" / name)
    assert rows, f"nothing was written to {name}"
    return rows


def test_four_tasks_have_their_ids_and_names_and_bytes(job: Outcome, told: Row) -> None:
    # GIVEN four tasks that write 1 MiB each THEN every write is in its task, and they add up
    for n, task in enumerate(told["parts"]):
        rows = written(job, f"part-{n}")
        assert sum(row["bytes_moved"] for row in rows) == SIZE
        expected = {"op": "ray.task", "name": f"part number {n}", "task": task}
        assert [task_of(job, row) for row in rows] == [expected] * len(rows)
        assert {row["link"] for row in rows} == {"thread"}


def test_tasks_by_name(job: Outcome) -> None:
    overview = summarize(job.log, top=1000).overview
    assert overview is not None
    # THEN the summary has each name that Ray has for its tasks, with their number and time
    rows = [row for row in job.rows if row["op"] in ("ray.task", "ray.actor_task")]
    names = Counter(json.loads(row["detail"])["name"] for row in rows)
    assert {one.name: one.count for one in overview.tasks} == names
    # (a task whose worker was killed lasts until the last that is known of it, or of the run)
    ends = {process["index"]: process["end"] for process in job.processes}
    latest = max([job.log.info()["end"] or 0, *(end for end in ends.values() if end)])
    lasted = [row["duration"] if row["duration"] is not None else (ends[row["process"]] or latest) - row["time"]
              for row in rows]  # fmt: skip
    assert sum(one.time_ns for one in overview.tasks) == sum(lasted)


def test_an_actors_methods_have_its_id_and_class(job: Outcome, told: Row) -> None:
    (made,) = {task["task"]: task for row in written(job, "init") if (task := task_of(job, row))}.values()
    assert (made["op"], made["name"], made["class"]) == ("ray.actor_task", "Reader.__init__", "Reader")
    assert made["actor"] == told["actor"]
    reads = [
        row
        for n in range(4)
        for row in job.select(layer="posix", op="read", path=job.path.parent / "data" / f"part-{n}")
    ]
    assert sum(row["bytes_moved"] for row in reads) == 4 * SIZE
    tasks = [task_of(job, row) for row in reads]
    assert {(task["name"], task["actor"]) for task in tasks if task} == {("Reader.total", told["actor"])}
    assert None not in tasks


def test_workers_are_called_by_what_they_run(job: Outcome, told: Row) -> None:
    # GIVEN an actor, one that is killed in its only task, and the workers of tasks
    (reader,) = {row["process"] for row in written(job, "init")}
    row = job.processes[reader]
    assert (row["process_kind"], row["process_name"]) == ("Ray actor", f"Ray Reader (actor {told['actor'][:6]})")
    for name, function in (("torn", "dies"), ("thread", "threaded"), ("part-0", "part number 0")):
        # THEN each has the names of the first functions that it ran
        (worker,) = {row["process"] for row in written(job, name)}
        row = job.processes[worker]
        assert row["process_kind"] == "Ray worker" and row["process_name"].startswith("Ray ")
        ran = [json.loads(one["detail"])["name"] for one in job.select(op="ray.task", process=worker)]
        assert function in ran
        different = list(dict.fromkeys(ran))
        more = ", ..." if len(different) > 2 else ""
        assert row["process_name"] == f"Ray {', '.join(different[:2])}{more}"


def test_a_killed_workers_operations_are_there(job: Outcome, told: Row) -> None:
    # GIVEN a worker that was killed by SIGKILL in the middle of its task
    assert told["died"]
    (row,) = written(job, "torn")
    # THEN what it wrote until then is there, and its task, which has no end
    assert row["bytes_moved"] == SIZE // 2
    task = task_of(job, row)
    assert task is not None and task["name"] == "dies"
    (span,) = [span for span in job.parents(row) if span["op"] == "ray.task"]
    assert span["duration"] is None


def test_a_failing_task_ends_and_its_second_attempt_is_told_apart(job: Outcome, told: Row) -> None:
    assert told["failed"].endswith("as it should")
    tasks = [task_of(job, row) for row in written(job, "failed")]
    assert sum(row["bytes_moved"] for row in written(job, "failed")) == 2 * SIZE
    assert {(task["name"], task.get("attempt")) for task in tasks if task} == {("fails", None), ("fails", 1)}
    spans = [row for row in job.select(op="ray.task") if json.loads(row["detail"])["name"] == "fails"]
    assert len(spans) == 2 and all(span["duration"] is not None for span in spans)


def test_a_generators_steps_are_in_its_task(job: Outcome, told: Row) -> None:
    # GIVEN a task that is a generator, and a method that is an asynchronous one
    for kind in ("generated", "steps"):
        for n in range(2):
            tasks = [task_of(job, row) for row in written(job, f"{kind}-{n}")]
            assert {task["task"] for task in tasks if task} == {told[kind][n]}
            assert None not in tasks


def test_a_thread_that_a_task_starts_is_in_the_task(job: Outcome) -> None:
    rows = written(job, "thread")
    assert {row["link"] for row in rows} <= {"thread", "context"}
    assert all((task := task_of(job, row)) and task["name"] == "threaded" for row in rows)


@pytest.mark.parametrize("kind", ["async", "threads"])
def test_methods_that_run_at_once_are_told_apart(job: Outcome, told: Row, kind: str) -> None:
    # GIVEN three calls of one actor at once, each of which writes, waits and writes
    for n, task in enumerate(told[kind]):
        for step in range(2):
            tasks = [task_of(job, row) for row in written(job, f"{kind}-{n}-{step}")]
            # THEN both writes are in the call that made them
            assert [found and found["task"] for found in tasks] == [task] * len(tasks)


def test_a_plain_method_of_an_actor_with_coroutines(job: Outcome) -> None:
    assert all((task := task_of(job, row)) and task["name"] == "Coroutines.plain" for row in written(job, "plain"))


def test_what_the_worker_does_for_itself_is_in_no_task(job: Outcome) -> None:
    # its start: reads of Ray's own files come before any task
    workers = {row["pid"] for row in job.select(op=("ray.task", "ray.actor_task"))}
    starts = [row for row in job.rows if row["pid"] in workers and row["layer"] == "posix" and row["parent"] is None]
    assert starts and all(task_of(job, row) is None for row in starts)


def test_ray_data_opens_its_sources_in_read_tasks(job: Outcome) -> None:
    folder = job.path.parent / "data" / "csv"
    for n in range(3):
        opened = job.select(op="FileBasedDatasource._open_input_source", path=folder / f"{n}.csv")
        assert opened
        for row in opened:
            assert json.loads(row["detail"]) == {"source": "CSVDatasource"}
            task = task_of(job, row)
            assert task is not None and task["name"].startswith("ReadCSV")
    listed = [json.loads(row["detail"])["files"] for row in job.select(op="ReadTask.__call__")]
    assert {file for files in listed for file in files} == {str(folder / f"{n}.csv") for n in range(3)}


def test_ray_data_writes_blocks_in_write_tasks(job: Outcome) -> None:
    target = job.path.parent / "data" / "written"
    blocks = job.select(op="BlockBasedFileDatasink.write_block", path=target)
    assert sum(json.loads(row["detail"])["rows"] for row in blocks) == 3000
    inside = {row["id"] for row in blocks}
    writes = [row for file in sorted(target.iterdir()) for row in job.select(layer="posix", op="write", path=file)]
    assert sum(row["bytes_moved"] for row in writes) == sum(file.stat().st_size for file in target.iterdir())
    assert all(any(span["id"] in inside for span in job.parents(row)) for row in writes)


def test_spilled_objects_are_written_and_read(job: Outcome, told: Row) -> None:
    # GIVEN 160 MiB of objects for a store of 100 MiB
    assert told["spilled"] == 160 << 20
    for op, name in (("write", "spill_objects"), ("read", "restore_spilled_objects")):
        call = f"FileSystemStorage.{name}"
        calls = job.select(op=call)
        beneath = {row["id"]: row for row in job.rows if row["layer"] == "posix" and row["op"] == op}
        moved = sum(
            row["bytes_moved"] or 0 for row in beneath.values() if any(span["op"] == call for span in job.parents(row))
        )
        said = sum(row["bytes_moved"] for row in calls)
        # THEN what is said to be spilled was written; each object read has a header of some hundred bytes
        assert said >= 60 << 20
        assert said <= moved <= said + 1024 * len(calls) * 8


def test_the_jobs_own_files_are_reached_from_its_tasks(job: Outcome) -> None:
    # GIVEN all POSIX operations of workers on the files of the job THEN nearly all say which task they were in
    workers = {row["process"] for row in job.select(op=("ray.task", "ray.actor_task"))}
    data = f"{job.path.parent}/data/"
    rows = [
        row
        for row in job.rows
        if row["layer"] == "posix" and row["process"] in workers and (row["path"] or "").startswith(data)
    ]
    known = [row for row in rows if row["link"] in ("thread", "context", "descriptor") and task_of(job, row)]
    assert len(rows) > 400
    assert len(known) >= 0.95 * len(rows)
    # and the rest are Arrow's threads, which read what a task has opened
    rest = [row for row in rows if row not in known]
    assert {(row["op"], row["path"].rpartition("/")[0]) for row in rest} <= {("read", f"{data}csv")}


def is_worker(process: Row) -> bool:
    return any(word.endswith("/default_worker.py") for word in process["argv"][1:2])


def test_services_of_ray_are_left_alone(job: Outcome) -> None:
    # GIVEN Ray's own processes, which the program has started
    services = ("/dashboard/", "log_monitor.py", "monitor.py", "/raylet/raylet", "/gcs_server", "/agent/")
    traced = {row["process"] for row in job.rows if row["op"] in ("open", "read", "write")}
    kinds = set()
    for process in job.processes:
        words = " ".join(process["argv"][:4])
        kinds |= {word for word in services if word in words}
        if not is_worker(process) and any(word in words for word in services):
            # THEN the last thing known of each is that it started
            rows = [row for row in job.rows if row["process"] == process["index"]]
            assert rows[-1]["op"] == "execve" and process["index"] not in traced, words
    assert len(kinds) >= 4, "they have other names now"
    # THEN its workers are traced
    workers = {process["index"] for process in job.processes if is_worker(process)}
    assert workers & traced


def test_no_fault_of_ours(job: Outcome) -> None:
    # GIVEN details taken from Ray's own objects in every worker THEN none of them has failed
    assert "pyio-trace" not in job.stderr
    assert "tracer_faults" not in job.log.losses()
    assert not [process["note"] for process in job.processes if "instrument" in (process["note"] or "")]
