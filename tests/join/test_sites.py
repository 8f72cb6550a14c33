"""The line of an operation: the program's own or the one that submitted it, never a line of pyio_trace."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyio_trace.join.references.call_stacks import BEGIN_IMPORT
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from tests.support.logwriter import LogWriter

THREAD = "/usr/lib/python3.12/concurrent/futures/thread.py"
LIBRARY = "/venv/lib/python3.12/site-packages/zarr/core/sync.py"
OWN = "/home/user/train.py"
POPEN = "/usr/lib/python3.12/multiprocessing/popen_fork.py"
WORKER = "/venv/lib/python3.12/site-packages/torch/utils/data/_utils/worker.py"
#: Files of ours where they can be: installed, in the reader's own tree, in a tree elsewhere.
OURS = [
    "/venv/lib/python3.12/site-packages/pyio_trace/capture/instruments/ray.py",
    "/usr/lib/python3/dist-packages/pyio_trace/config.py",
    "/venv/lib/python3.12/site-packages/pyio_trace_plugins/ray.py",
    "/venv/lib/python3.12/site-packages/_pyio_trace_start.py",
    str(Path(open_log.__code__.co_filename).parents[1] / "values.py"),
    "/elsewhere/src/pyio_trace/capture/instruments/ray.py",
    "/elsewhere/src/plugins/pyio_trace_plugins/ray.py",
]


def site_of(tmp_path: Path, *stacks: list[str] | list[tuple[str, str]]) -> tuple[str | None, bool, str | None]:
    """The site, mark and stack of an operation: its own stack's files (or files and functions), innermost first, then
    its submitters'."""
    writer = LogWriter()
    thread = writer.thread(writer.process(100, begin=1_500), 101)
    made = [[(writer.code(*((one, "f") if isinstance(one, str) else one)), 7) for one in stack] for stack in stacks]
    submitters = tuple(writer.stack(*frames) for frames in made[1:])
    thread.record("STAT", begin=2_000, desc=writer.string("/x"), stack=writer.stack(*made[0], submitters=submitters))
    path = tmp_path / "run.pyio"
    path.write_bytes(writer.bytes())
    (row,) = open_log(path).operations().to_pylist()
    return row["site"] and row["site"].split(":")[0], row["submitted"], row["call_stack"]


@pytest.mark.parametrize("ours", OURS)
def test_a_file_of_ours_is_no_site(tmp_path: Path, ours: str) -> None:
    # GIVEN a stack whose innermost frame is ours WHEN it has a line of the program, of a library, or of nobody
    # THEN that is the site, and ours is not
    assert site_of(tmp_path, [ours, LIBRARY, OWN])[:2] == (OWN, False)
    assert site_of(tmp_path, [ours, LIBRARY, THREAD])[:2] == (LIBRARY, False)
    assert site_of(tmp_path, [ours])[:2] == (None, False)
    assert site_of(tmp_path, [ours, THREAD], [ours, OWN])[:2] == (OWN, True)


def test_a_folder_with_our_name_is_the_users(tmp_path: Path) -> None:
    # GIVEN programs in folders with our package's name WHEN they have operations THEN the lines are the programs'
    for own in ("pyio_trace/train.py", "pyio_trace/examples/read.py", "my_pyio_trace/capture/read.py"):
        assert site_of(tmp_path, [f"/home/user/{own}", LIBRARY])[:2] == (f"/home/user/{own}", False)


def test_the_site_is_the_submitters_where_the_thread_has_none(tmp_path: Path) -> None:
    # GIVEN work that was handed on twice WHEN neither its thread nor who handed it on last has a line of the program's
    # THEN the site is that of the first; the stack stays the thread's own
    assert site_of(tmp_path, [THREAD], [LIBRARY], [LIBRARY, OWN]) == (OWN, True, f"{THREAD}:7:f")
    assert site_of(tmp_path, [THREAD], ["/home/user/nearer.py"], [OWN])[0] == "/home/user/nearer.py"
    assert site_of(tmp_path, ["/home/user/worker.py", THREAD], [OWN])[:2] == ("/home/user/worker.py", False)
    assert site_of(tmp_path, [THREAD], [LIBRARY], [THREAD])[:2] == (THREAD, False)


def test_a_package_before_the_standard_library(tmp_path: Path) -> None:
    # GIVEN a thread of a package, which uses the standard library WHEN nobody has a line of the program's
    # THEN the site is the package's innermost line, whatever is beneath or above it; else the standard library's
    standard, other = "/usr/lib/python3.12/pathlib.py", "/venv/lib/python3.12/site-packages/fsspec/local.py"
    frozen = ("<frozen os>", "makedirs")
    assert site_of(tmp_path, [standard, LIBRARY, THREAD])[:2] == (LIBRARY, False)
    assert site_of(tmp_path, [standard, other, standard, LIBRARY, THREAD])[:2] == (other, False)
    assert site_of(tmp_path, [frozen, (LIBRARY, "f")])[:2] == (LIBRARY, False)
    assert site_of(tmp_path, [OURS[0], standard, LIBRARY, THREAD])[:2] == (LIBRARY, False)
    assert site_of(tmp_path, [standard, OURS[0], THREAD])[:2] == (standard, False)
    # AND a line of the program's comes first, also of the one who submitted the work
    assert site_of(tmp_path, [standard, LIBRARY, THREAD], [THREAD, OWN])[:2] == (OWN, True)


def test_submitters_of_a_damaged_log_are_not_believed(tmp_path: Path) -> None:
    # GIVEN a stack that names submitters which are not there, and more of them than it has room for WHEN it is read
    writer = LogWriter()
    thread = writer.thread(writer.process(100, begin=1_500), 101)
    frame = (writer.code(THREAD, "f"), 7)
    stack = writer.stack(frame, submitters=(1, 0xFFFFFFFF, stack_of_itself := writer.string("no stack")))
    thread.record("STAT", begin=2_000, desc=stack_of_itself, stack=stack)
    data = bytearray(writer.bytes())
    for count in (3, 4, 0xFFFF):
        data[stack * 16 + 14 : stack * 16 + 16] = count.to_bytes(2, "little")
        (tmp_path / "run.pyio").write_bytes(data)
        (row,) = open_log(tmp_path / "run.pyio").operations().to_pylist()
        # THEN the thread's own line is what is left
        assert (row["site"], row["submitted"]) == (f"{THREAD}:7:f", False)


def test_the_stacks_of_a_forked_process_are_cut_at_its_fork(tmp_path: Path) -> None:
    # GIVEN a process forked by multiprocessing from a line of the program, and one forked by the program itself
    writer = LogWriter()
    launch, spawn, own = writer.code(POPEN, "_launch"), writer.code(WORKER, "_worker_loop"), writer.code(OWN, "main")
    item, back = writer.code(OWN, "__getitem__"), writer.code(OWN, "child")
    parent = writer.process(100, begin=1_500)
    trainer = writer.thread(parent, 101)
    loop, plain = writer.stack((launch, 66), (own, 14)), writer.stack((own, 20), (own, 30))
    forks = [trainer.record("FORK", begin=1_600 + n, stack=stack) for n, stack in enumerate((loop, plain))]
    stacks = [
        writer.stack((spawn, 9), (launch, 71), (own, 14)),  # the library's code in the worker: no line of the trainer
        writer.stack((item, 7), (spawn, 9), (launch, 71), (own, 14)),
        writer.stack((back, 5), (own, 21), (own, 30)),
        writer.stack((own, 20), (own, 30)),  # still at the fork
    ]
    workers = [
        writer.thread(
            writer.process(200 + n, begin=1_700, start=layout.START_FORK, started_by=fork, parent=parent), 200 + n
        )
        for n, fork in enumerate(forks)
    ]
    for thread in (trainer, *workers):
        for n, stack in enumerate(stacks):
            thread.record("STAT", begin=2_000 + n, desc=writer.string("/x"), stack=stack)
    log = open_log(writer.save(tmp_path / "run.pyio"))
    # WHEN their operations are read
    rows = [row for row in log.operations(["pid", "op", "site", "call_stack"]).to_pylist() if row["op"] == "stat"]
    # THEN in a forked process, frames that its parent was in when it forked are gone, unless they have moved on
    found = {pid: [(row["site"], row["call_stack"]) for row in rows if row["pid"] == pid] for pid in (100, 200, 201)}
    loader = f"{POPEN}:71:_launch;{WORKER}:9:_worker_loop"
    assert [site for site, _ in found[100]] == [
        f"{OWN}:14:main", f"{OWN}:7:__getitem__", f"{OWN}:5:child", f"{OWN}:20:main",
    ]  # fmt: skip
    assert found[200][:2] == [
        (f"{WORKER}:9:_worker_loop", loader), (f"{OWN}:7:__getitem__", f"{loader};{OWN}:7:__getitem__"),
    ]  # fmt: skip
    assert found[201][2:] == [(f"{OWN}:5:child", f"{OWN}:21:main;{OWN}:5:child"), (None, None)]


def test_the_command_that_starts_an_interpreter_is_no_line(tmp_path: Path) -> None:
    # GIVEN processes that multiprocessing starts by `python -c`, and one that somebody does
    text, library = "<string>", "/usr/lib/python3.12/pickle.py"
    for name, function in (("spawn", "spawn_main"), ("forkserver", "main"), ("resource_tracker", "main")):
        starter = f"/usr/lib/python3.12/multiprocessing/{name}.py"
        assert site_of(tmp_path, [(library, "load"), (starter, function), (text, "<module>")])[0] == library
    assert site_of(tmp_path, [(library, "load"), (text, "<module>")])[0] == text


def test_code_that_arrived_without_its_file(tmp_path: Path) -> None:
    # GIVEN code that arrived without its file in one process and was sent by others: once, twice from one file, from
    # two files, with another line table or first line, without one, and by nobody
    writer = LogWriter()
    first, second, worker = (writer.process(100 + n, begin=1_500) for n in range(3))
    sent = 0
    for name, table, line in (("once", 1, 5), ("twice", 1, 5), ("both", 1, 5), ("table", 2, 5), ("line", 1, 6)):
        sent = writer.sent(first, writer.code(OWN, name, line, table), sent)
    sent = writer.sent(second, writer.code(OWN, "twice", 5, 1))
    sent = writer.sent(second, writer.code("/home/user/other.py", "both", 5, 1), sent)
    writer.sent(second, writer.code(OWN, "unknown", 5, 0), sent)
    thread = writer.thread(worker, 102)
    names = ("once", "twice", "both", "table", "line", "nobody", "unknown")
    for name in names:
        code = writer.code("<dynamic-code>", name, 5, 0 if name == "unknown" else 1)
        thread.record("STAT", begin=2_000, desc=writer.string("/x"), stack=writer.stack((code, 7)))
    path = tmp_path / "run.pyio"
    path.write_bytes(writer.bytes())
    # WHEN the log is read THEN the file is known where there is one only
    found = {row["site"] for row in open_log(path).operations().to_pylist()}
    assert found == {f"{OWN if name in ('once', 'twice') else '<dynamic-code>'}:7:{name}" for name in names}


def test_what_begins_an_import_is_one_list() -> None:
    # GIVEN the writer's list of functions that begin an import WHEN compared with the reader's THEN they are equal
    source = (Path(__file__).parents[2] / "csrc" / "ext" / "frames" / "frames.c").read_text()
    (listed,) = re.findall(r"static bool begins_import\(.*?names\[\] = \{(.*?)\};", source, re.DOTALL)
    assert set(re.findall(r'"(\w+)"', listed)) == BEGIN_IMPORT
