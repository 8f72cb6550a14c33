"""I/O that bypasses the hooks is estimated; the program itself counts the bytes to compare with."""

from __future__ import annotations

import json
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import pyio_trace
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.analysis.tables.sums_tables import by_file
from pyio_trace.join.processes.raw_syscalls import that_make_calls
from tests.support.programs import Outcome, Row, Runner, succeeded
from tests.support.summaries import unseen_lines
from tests.support.surroundings import allow_descriptors

PAGE = 4096
MIB = 1 << 20
SOURCE = Path(__file__).resolve().parents[1] / "csrc" / "rawcalls.c"
#: What the loader and Python's own machinery read past the hooks in such small programs.
NOISE = 128 * 1024
NUMBERS = {"x86_64": (0, 1, 425), "aarch64": (63, 64, 425)}[platform.machine()]  # read, write, io_uring_setup

#: Indented as the programs that it is the start of.
RAW = """
        import ctypes, json, os, sys
        raw = ctypes.CDLL(sys.argv[1]).raw_call
        raw.argtypes, raw.restype = [ctypes.c_long] * 7, ctypes.c_long
        buffer = ctypes.create_string_buffer(1 << 20)
        at = ctypes.addressof(buffer)
"""


@pytest.fixture(scope="module")
def raw_calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("rawcalls") / "rawcalls.so"
    words = ["cc", "-O1", "-shared", "-fPIC", f"-I{SOURCE.parents[2] / 'csrc/core'}", str(SOURCE), "-o", str(library)]
    subprocess.run(words, check=True)
    return library


def only(outcome: Outcome) -> Row:
    assert len(outcome.processes) == 1
    return outcome.processes[0]


def near(figure: int, truth: int) -> bool:
    return truth <= figure <= truth + NOISE


def mapped(outcome: Outcome, name: str) -> list[Row]:
    return [row for row in outcome.log.mappings().to_pylist() if row["path"] and row["path"].endswith(name)]


def measured(program: Runner, text: str) -> Outcome:
    """The outcome of a run whose mappings were all measured: on a busy machine the time for it may run out."""
    for attempt in range(10):
        outcome = succeeded(program.traced(text, log=f"run{attempt}.pyio"))
        if not any(row["unmeasured"] for row in outcome.log.mappings().to_pylist()):
            break
    return outcome


# ---- system calls that no table leads to


def test_bytes_of_raw_system_calls(program: Runner, raw_calls: Path, data: Path) -> None:
    """GIVEN reads and writes past libc, beside others that are seen, left out or suppressed WHEN traced THEN the figure
    is that of the raw ones alone."""
    outcome = succeeded(program.traced(
        RAW + f"""
        import pyio_trace
        read, write = {NUMBERS[0]}, {NUMBERS[1]}
        fd = os.open(sys.argv[2], os.O_RDONLY)
        out = os.open("out", os.O_WRONLY | os.O_CREAT)
        done = [0, 0]
        while (n := raw(read, fd, at, 100_000, 0, 0, 0)) > 0:
            done[0] += n
        for size in (1, 70_000, 900_000):
            done[1] += raw(write, out, at, size, 0, 0, 0)
        os.lseek(fd, 0, 0)
        for _ in range(30):
            os.read(fd, 100_000)                         # seen
            os.write(out, bytes(50_000))
        r, w = os.pipe()
        for _ in range(100):
            os.write(w, bytes(30_000)); os.read(r, 30_000)   # left out: a pipe
        with pyio_trace.suppress():
            for _ in range(10):
                os.pread(fd, 200_000, 0); os.pwrite(out, bytes(100_000), 0)
        os.sendfile(out, fd, 0, 300_000)
        for given in ({{}}, {{"offset_dst": 0}}):
            os.write(w, bytes(30_000))
            os.splice(r, out, 30_000, **given)           # seen, and not counted by the kernel
        print(json.dumps(done))
        """,
        raw_calls, data,
    ))  # fmt: skip
    read, written = json.loads(outcome.stdout)
    assert (read, written) == (1000 * PAGE, 970_001)
    process = only(outcome)
    assert near(process["unseen_read"], read)
    assert written == process["unseen_written"]
    assert process["kernel_read"] > read + 30 * 100_000 + 100 * 30_000
    losses = outcome.log.losses()
    assert (losses["unseen_read"], losses["unseen_written"]) == (process["unseen_read"], written)
    assert losses["raw_call_libraries"] == [str(raw_calls)]
    assert f"1 library has system-call instructions: {raw_calls}" in unseen_lines(summarize(outcome.log))


def test_a_command_line_that_is_cut_costs_no_figure(program: Runner, raw_calls: Path, data: Path) -> None:
    """GIVEN a program whose command line is too long for the log WHEN traced THEN the log has its beginning, and the
    fields stored behind it are intact."""
    text = (
        RAW
        + f"""
        fd = os.open(sys.argv[2], os.O_RDONLY)
        while raw({NUMBERS[0]}, fd, at, 100_000, 0, 0, 0) > 0:
            pass
        """
    )
    for length in (1000, 3000):
        process = only(succeeded(program.traced(text, raw_calls, data, "y" * 3000, "z" * length)))
        assert near(process["unseen_read"], 1000 * PAGE)
        assert process["argv"][-1] == "y" * len(process["argv"][-1]) and len("".join(process["argv"])) < 2048


def test_which_code_makes_system_calls(raw_calls: Path, tmp_path: Path) -> None:
    """GIVEN a library with the instruction, one that calls libc's, and one that has its bytes in a number WHEN their
    code is looked at THEN the first alone is named."""
    source, library = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text("#include <unistd.h>\nint f(void) { return getpid() + 0x050f; }\n"
                      "unsigned g(unsigned a) { return a * 0x4889050fu; }\n")  # fmt: skip
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    others = [str(library), str(source), str(tmp_path / "missing"), str(tmp_path)]
    assert that_make_calls([*others, str(raw_calls)]) == [str(raw_calls)]


def test_nothing_is_said_of_a_program_without_such_calls(program: Runner, data: Path) -> None:
    """GIVEN file objects, stdio through numpy, and a child WHEN traced THEN no process has a figure worth a line."""
    outcome = succeeded(program.traced(
        """
        import numpy, os, subprocess, sys
        a = numpy.fromfile(sys.argv[1], dtype="u1")     # fread: the stream's row stands for libc's own reads
        a.tofile("copy")
        with open("copy", "rb") as f, open("again", "wb") as g:
            while part := f.read(5000):
                g.write(part)
        subprocess.run([sys.executable, "-c", "print(len(open('copy', 'rb').read()))"], check=True)
        """,
        data,
    ))  # fmt: skip
    followed = [process for process in outcome.processes if process["kernel_read"] is not None]
    assert len(followed) >= 2
    assert outcome.log.losses() == {}


def test_a_killed_process_has_no_account(program: Runner) -> None:
    outcome = program.traced("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert outcome.status == -signal.SIGKILL
    assert (only(outcome)["kernel_read"], only(outcome)["unseen_read"]) == (None, None)


def test_an_io_uring_made_past_libc_is_found_at_the_end(program: Runner, raw_calls: Path) -> None:
    outcome = program.traced(
        RAW
        + f"""
        entries = 4
        ring = raw({NUMBERS[2]}, entries, at, 0, 0, 0, 0)
        sys.exit(0 if ring >= 0 else 77)
        """,
        raw_calls,
    )
    if outcome.status == 77:
        pytest.skip("this kernel does not allow io_uring")
    assert "io_uring" in only(succeeded(outcome))["blind"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")
def test_a_statically_linked_child_is_named(program: Runner) -> None:
    source = program.folder / "tiny.c"
    source.write_text("int main(void) { return 0; }\n")
    built = subprocess.run(["cc", "-static", str(source), "-o", str(program.folder / "tiny")], capture_output=True)
    if built.returncode:
        pytest.skip("libc is not here as a static library")
    outcome = succeeded(program.traced(
        "import subprocess; subprocess.run(['./tiny'], check=True); subprocess.run(['/bin/true'], check=True)"
    ))  # fmt: skip
    notes = {process["argv"][0]: process["note"] for process in outcome.processes}
    assert notes["./tiny"] == "./tiny: statically linked, cannot be followed"
    assert notes["/bin/true"] == ""


def test_losses_have_an_io_uring_and_syscall(program: Runner, raw_calls: Path) -> None:
    """GIVEN a program that makes an io_uring past libc, and one that writes by syscall() WHEN traced THEN losses() says
    so, in the live log and the packed one, and the summary's Not seen is made of that."""
    if program.bare(RAW + f"\n        sys.exit(raw({NUMBERS[2]}, 4, at, 0, 0, 0, 0) < 0)", raw_calls).status:
        pytest.skip("this kernel does not allow io_uring")
    texts = {
        "io_uring": RAW + f"\n        raw({NUMBERS[2]}, 4, at, 0, 0, 0, 0)",
        "syscall": RAW
        + f"""
        fd = os.open("out", os.O_WRONLY | os.O_CREAT)
        ctypes.CDLL(None).syscall({NUMBERS[1]}, fd, buffer, 100)
        """,
    }
    from pyio_trace.join.pack.packer import pack

    for key, text in texts.items():
        outcome = succeeded(program.traced(text, raw_calls, log=f"{key}.pyio"))
        losses = outcome.log.losses()
        assert {name: value for name, value in losses.items() if name != "raw_call_libraries"} == {key: 1}
        pack(outcome.path, program.folder / "packed.parquet")
        assert pyio_trace.open(program.folder / "packed.parquet").losses() == losses
        words = unseen_lines(summarize(outcome.log))[0]
        assert ("io_uring" in words) == (key == "io_uring") and "1 process" in words


@pytest.mark.parametrize("path", ["/proc/self/status", "pipe"])
def test_syscall_on_what_is_left_out_is_no_loss(program: Runner, path: str) -> None:
    # GIVEN a program that reads by syscall(), but from what is left out anyway WHEN traced THEN losses() says nothing
    opened = "os.pipe()[0]" if path == "pipe" else f"os.open({path!r}, os.O_RDONLY)"
    data = "os.write(fd + 1, bytes(100))" if path == "pipe" else "None"
    outcome = succeeded(program.traced(f"""
        import ctypes, os
        fd = {opened}
        {data}
        print(ctypes.CDLL(None).syscall({NUMBERS[0]}, fd, ctypes.create_string_buffer(100), 100))
    """))  # fmt: skip
    assert outcome.stdout == "100\n"
    assert outcome.log.losses() == {}


#: Maps so much that a look at smaps is more than a megabyte; in a forked child as well.
MAPS = """
        import mmap
        with open("many", "w+b") as f:
            f.truncate(3000 * 4096)
            mapped = [mmap.mmap(f.fileno(), 4096, offset=2 * n * 4096) for n in range(1500)]
            for one in mapped:
                one[0] = 1
"""


def test_the_tracer_s_own_reading_is_not_its_program_s(program: Runner, raw_calls: Path) -> None:
    """GIVEN a program with many mappings, and its children WHEN they end and their mappings are measured THEN no
    process is charged with what the tracer reads, and bytes that bypassed the hooks are not its own."""
    allow_descriptors(4096)  # each mapping has one
    outcome = succeeded(program.traced(
        RAW + MAPS + f"""
        for _ in range(2):
            if (child := os.fork()) == 0:
                os._exit(0)
            os.waitpid(child, 0)
        raw({NUMBERS[0]}, os.open("/dev/zero", os.O_RDONLY), at, 1 << 20, 0, 0, 0)
        """,
        raw_calls,
    ))  # fmt: skip
    parent, *children = outcome.processes
    assert near(parent["unseen_read"], MIB)
    assert [child["unseen_read"] < NOISE for child in children] == [True, True]
    again = succeeded(program.traced(RAW + MAPS, raw_calls, log="again.pyio"))
    assert only(again)["unseen_read"] < NOISE
    assert not {"unseen_read", "unseen_written"} & set(again.log.losses())


# ---- names

RENAMEAT2 = {"x86_64": 316, "aarch64": 276}[platform.machine()]
CHECKPOINT = (
    RAW
    + f"""
        fd = os.open(".tmp-1", os.O_WRONLY | os.O_CREAT)
        os.write(fd, bytes(100_000))
        os.close(fd)
        old, new = (ctypes.create_string_buffer(name) for name in (b".tmp-1", b"model.safetensors"))
        assert raw({RENAMEAT2}, -100, ctypes.addressof(old), -100, ctypes.addressof(new), 0, 0) == 0
"""
)


@pytest.mark.parametrize("then", ["", "print(len(open('model.safetensors', 'rb').read()))"])
def test_a_file_that_is_renamed_past_libc(program: Runner, raw_calls: Path, then: str) -> None:
    """GIVEN a file that is written under one name and renamed by a raw call, and perhaps opened again WHEN traced and
    packed THEN the file has its final name, marked as inferred, and its operations keep theirs."""
    script = program.write(CHECKPOINT + f"        {then}\n")
    words = [sys.executable, "-m", "pyio_trace", "-o", "run.parquet", script, raw_calls]
    outcome = succeeded(program.command(words, log="run.parquet"))
    old, new = str(program.folder / ".tmp-1"), str(program.folder / "model.safetensors")
    [rename] = outcome.log.renames()
    assert rename == {"file": rename["file"], "path": old, "to": new, "how": "reopened" if then else "found"}
    [write] = outcome.select(op="write", path=old)
    assert write["file"] == rename["file"]
    assert outcome.log.losses()["renames_unseen"] == 1
    [file] = [row for row in by_file(outcome.log).to_pylist() if row["path"] == new]
    assert (file["renamed_from"], file["written"], file["opens"]) == (old, 100_000, 2 if then else 1)
    assert "1 file was renamed by calls that were not seen" in outcome.stderr
    told = program.command([sys.executable, "-m", "pyio_trace", "summary", "--all", outcome.path]).stdout
    assert "model.safetensors (inferred: written as .tmp-1)" in told


def test_a_name_that_is_not_utf_8_is_still_there(program: Runner) -> None:
    # GIVEN files that keep their names: one that is not UTF-8, one that looks like the other escaped
    text = """
    import os
    for name in (b"new\\n-\\xff.bin", b"new-\\\\xff.bin"):
        with open(name, "wb") as file:
            file.write(bytes(1000))
    """
    # WHEN they are traced THEN none of them was renamed
    outcome = succeeded(program.traced(text))
    assert {row["path"].rpartition("/")[2] for row in outcome.select(op="write")} == {
        "new\n-\\xff.bin",
        "new-\\xff.bin",
    }
    assert outcome.log.renames() == []


def test_a_new_name_that_is_not_utf_8(program: Runner, raw_calls: Path) -> None:
    # GIVEN a file that a raw call gives a name that is not UTF-8 WHEN traced and packed THEN the name is told, escaped
    script = program.write(CHECKPOINT.replace('b"model.safetensors"', 'b"model-\\xff"'))
    words = [sys.executable, "-m", "pyio_trace", "-o", "run.parquet", script, raw_calls]
    outcome = succeeded(program.command(words, log="run.parquet"))
    [rename] = outcome.log.renames()
    assert rename["to"] == str(program.folder / "model-\\xff")


def test_names_that_are_known_are_not_inferred(program: Runner) -> None:
    """GIVEN files that are renamed, removed, replaced and linked by calls that are seen WHEN traced THEN nothing is
    inferred."""
    outcome = succeeded(program.traced(
        """
        import os
        for name in ("a", "b", "c", "d", "e"):
            with open(name, "w") as f:
                f.write("x")
        os.rename("a", "a2")
        os.remove("b")
        open("b", "w").close()
        os.link("c", "c2"); os.remove("c")
        os.replace("d", "e")
        os.symlink("e", "link")
        open("link", "w").close()
        """
    ))  # fmt: skip
    assert outcome.log.renames() == []
    assert outcome.log.losses() == {}


# ---- mapped files


def test_a_file_read_whole_through_a_mapping(program: Runner) -> None:
    """GIVEN 64 MiB summed through numpy.memmap WHEN traced THEN the estimate is within 10 %."""
    outcome = measured(
        program,
        """
        import numpy
        with open("big", "wb") as f:
            f.truncate(64 << 20)
        numpy.memmap("big", dtype="u8", mode="r").sum()
        """,
    )
    [row] = mapped(outcome, "/big")
    assert (row["protection"], row["shared"], row["mappings"], row["unmeasured"]) == ("r--", True, 1, 0)
    assert row["length"] == 64 * MIB and abs(row["touched"] - 64 * MIB) <= 6.4 * MIB
    assert 0 < row["at_least"] <= 64 * MIB
    assert row["written"] == 0
    assert outcome.log.losses()["mapped_touched"] == row["touched"]


def test_measuring_mappings_is_a_part_of_the_cost(program: Runner) -> None:
    # GIVEN a program that does little but map a file of 8,192 pages three times
    outcome = succeeded(
        program.traced("""
        import mmap
        with open("data", "wb") as file:
            file.write(bytes(32 << 20))
        for _ in range(3):
            with open("data", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
                mapped.read()
        """)
    )
    measured = [row for row in outcome.log.mappings().to_pylist() if (row["path"] or "").endswith("/data")]
    assert [(row["mappings"], row["unmeasured"], row["length"]) for row in measured] == [(3, 0, 96 << 20)]
    # THEN the estimated cost includes asking the kernel about each of their pages
    assert summarize(outcome.log).cost.time >= 3 * 8192 * 10


def test_single_pages_lie_between_the_two_figures(program: Runner) -> None:
    """GIVEN some pages touched, far apart WHEN traced THEN the true figure lies between the bounds."""
    pages = 40
    outcome = measured(
        program,
        f"""
        import mmap
        with open("sparse", "wb") as f:
            f.truncate(256 << 20)
        with open("sparse", "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
            for n in range({pages}):
                m[n * (5 << 20)]
        """,
    )
    [row] = mapped(outcome, "/sparse")
    assert row["at_least"] == pages * PAGE
    assert pages * PAGE <= row["touched"] <= pages * 2 * MIB


@pytest.fixture(params=["on disk", "in memory"])
def new_file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Where a file can be made, whose pages the kernel writes back when it likes, or never."""
    if request.param == "on disk":
        yield tmp_path / "new"
    else:
        with TemporaryDirectory(dir="/dev/shm") as folder:
            yield Path(folder) / "new"


def test_pages_written_through_a_mapping(program: Runner, tmp_path: Path, new_file: Path) -> None:
    """GIVEN known pages of a new file written, synced, and others written WHEN traced THEN written is all of them;
    private copies write no file."""
    outcome = measured(
        program,
        f"""
        import mmap
        with open({str(new_file)!r}, "w+b") as f:
            f.truncate(16 << 20)
            m = mmap.mmap(f.fileno(), 0)
            for n in range(1000):
                m[n * {PAGE}] = 1
            m.flush()
            for n in range(2000, 2500):
                m[n * {PAGE}] = 1
            m.close()
            m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY)
            for n in range(700):
                m[n * {PAGE}] = 1
            m.close()
        """,
    )
    rows = {row["shared"]: row for row in mapped(outcome, "/new")}
    # The 1,000 pages are counted when they are synced.  Of the others the kernel may have written back any meanwhile,
    # which makes them clean (docs/explanation/blind-spots.md); a file system in memory keeps them all dirty.
    assert (1000 if new_file.parent == tmp_path else 1500) * PAGE <= rows[True]["written"] <= 1500 * PAGE
    assert rows[True]["touched"] >= 1500 * PAGE >= rows[True]["at_least"]
    assert rows[False]["written"] == 0
    assert 700 * PAGE <= rows[False]["at_least"] <= rows[False]["touched"] <= 16 * MIB


def test_a_forked_child_has_its_own_figures(program: Runner) -> None:
    """GIVEN a mapping made before a fork, of which the child alone reads a part WHEN traced THEN the child's row has
    that part, the parent's nothing."""
    outcome = measured(
        program,
        """
        import mmap, os
        with open("shared", "wb") as f:
            f.truncate(32 << 20)
        f = open("shared", "rb")
        m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
        if (child := os.fork()) == 0:
            sum(m[n] for n in range(0, 8 << 20, 4096))
            os._exit(0)
        os.waitpid(child, 0)
        """,
    )
    parent, child = mapped(outcome, "/shared")
    assert (parent["touched"], parent["inherited"], parent["unmeasured"]) == (0, False, 0)
    assert child["inherited"] and abs(child["touched"] - 8 * MIB) <= 2 * MIB
    assert outcome.process(child["pid"])["mapped_touched"] == child["touched"]


def test_pages_given_back_are_counted(program: Runner) -> None:
    outcome = measured(
        program,
        """
        import mmap
        with open("again", "wb") as f:
            f.truncate(8 << 20)
        f = open("again", "rb")
        m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
        for _ in range(3):
            sum(m[n] for n in range(0, 8 << 20, 4096))
            m.madvise(mmap.MADV_DONTNEED)
        """,
    )
    [row] = mapped(outcome, "/again")
    assert abs(row["touched"] - 24 * MIB) <= 2.4 * MIB


def test_a_mapping_alive_in_a_killed_process_is_unknown(program: Runner) -> None:
    outcome = program.traced(
        """
        import mmap, os, signal
        with open("held", "wb") as f:
            f.truncate(1 << 20)
        f = open("held", "rb")
        m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
        m[0]
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    [row] = mapped(outcome, "/held")
    assert (row["mappings"], row["unmeasured"], row["touched"]) == (1, 1, 0)
    assert outcome.log.losses() == {"mappings_unmeasured": 1}


def test_a_very_large_mapping_is_sampled(program: Runner) -> None:
    """GIVEN 1 TiB mapped, of which the first half of 16 GiB is touched a page in each 2 MiB WHEN traced THEN it is
    looked at in part, and said so."""
    outcome = measured(
        program,
        """
        import mmap
        with open("vast", "wb") as f:
            f.truncate(1 << 40)
        f = open("vast", "rb")
        m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
        m[0]
        m.close()
        """,
    )
    [row] = mapped(outcome, "/vast")
    assert row["sampled"] and row["length"] == 1 << 40 and row["unmeasured"] == 0


def test_many_mappings_are_few_rows(program: Runner) -> None:
    outcome = succeeded(program.traced(
        """
        import mmap
        with open("one", "wb") as f:
            f.write(bytes(8192))
        for _ in range(5000):
            with open("one", "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
                m[5000]
        """
    ))  # fmt: skip
    [row] = mapped(outcome, "/one")
    assert (row["mappings"], row["length"]) == (5000, 5000 * 8192)
    measured = row["mappings"] - row["unmeasured"]  # a busy machine may not have had the time for each
    assert measured > 0 and measured * PAGE <= row["at_least"] <= row["touched"] <= measured * 2 * PAGE


def test_the_parquet_log_says_the_same(program: Runner, data: Path) -> None:
    outcome = succeeded(program.traced(
        """
        import mmap, sys
        with open(sys.argv[1], "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
            sum(m[::4096])
        """,
        data,
    ))  # fmt: skip
    from pyio_trace.join.pack.packer import pack

    packed = program.folder / "packed.parquet"
    pack(outcome.path, packed)
    again = pyio_trace.open(packed)
    assert again.mappings().to_pylist() == outcome.log.mappings().to_pylist() != []
    assert again.processes().to_pylist() == outcome.processes
    assert again.losses() == outcome.log.losses()


def test_what_children_moved_is_not_their_parents(program: Runner, data: Path) -> None:
    """GIVEN children, traced, not traced and killed, that read a file (the kernel adds that to the parent's account
    when it waits) WHEN traced THEN the parent has none of it, also where libc itself started and waited for one."""
    text = """
        import os, signal, subprocess, sys
        quiet = {"stdout": subprocess.DEVNULL, "check": True}
        if len(sys.argv) > 2:
            os.system(f"cat {sys.argv[1]} > /dev/null")
        subprocess.run(["cat", sys.argv[1]], **quiet)
        subprocess.run([sys.executable, "-c", "import sys; open(sys.argv[1], 'rb').read()", sys.argv[1]], **quiet)
        for ending in (os._exit, lambda status: os.kill(os.getpid(), signal.SIGKILL)):
            if (child := os.fork()) == 0:
                open(sys.argv[1], "rb").read()
                ending(0)
            os.waitpid(child, 0)
    """
    outcome = succeeded(program.traced(text, data))
    assert outcome.processes[0]["unseen_read"] < NOISE
    assert "unseen_read" not in outcome.log.losses()
    assert outcome.processes[-1]["unseen_read"] is None  # killed
    again = succeeded(program.traced(text, data, "system", log="again.pyio"))
    assert again.processes[0]["unseen_read"] < NOISE


def test_a_forked_child_s_figures_are_exact(program: Runner, raw_calls: Path, data: Path) -> None:
    """GIVEN forked children that do nothing but read past libc, each a different number of bytes WHEN traced THEN their
    figures are exactly those numbers: the tracer's own reads are subtracted, and only once."""
    outcome = succeeded(program.traced(
        RAW + f"""
        fd = os.open(sys.argv[2], os.O_RDONLY)
        for size in (0, 1, 5000):
            if os.fork() == 0:
                if size:
                    raw({NUMBERS[0]}, fd, at, size, 0, 0, 0)
                os._exit(0)
            os.wait()
        """,
        raw_calls, data,
    ))  # fmt: skip
    assert [process["unseen_read"] for process in outcome.processes[1:]] == [0, 1, 5000]


def test_a_child_that_is_first_looked_at_counts_once(program: Runner, raw_calls: Path, data: Path) -> None:
    """GIVEN a program that reads past libc, and inspects an ended child (WNOWAIT) before it waits for it WHEN traced
    THEN the child's bytes are subtracted from its account once."""
    outcome = succeeded(program.traced(
        RAW + f"""
        fd = os.open(sys.argv[2], os.O_RDONLY)
        if (child := os.fork()) == 0:
            os.pread(fd, 1 << 22, 0)
            os._exit(0)
        for _ in range(3):
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        os.waitpid(child, 0)
        while raw({NUMBERS[0]}, fd, at, 100_000, 0, 0, 0) > 0:
            pass
        """,
        raw_calls, data,
    ))  # fmt: skip
    assert near(outcome.processes[0]["unseen_read"], 1000 * PAGE)


def test_memory_that_processes_share_is_no_file(program: Runner) -> None:
    """GIVEN memory that a process fills, hands to a child and to one that it forks, and a mapped file WHEN traced THEN
    the file is examined, and the memory is not, in any of them."""
    outcome = measured(
        program,
        """
        import mmap, multiprocessing, os
        from multiprocessing.shared_memory import SharedMemory
        def child(name):
            other = SharedMemory(name)
            assert bytes(other.buf[:3]) == b"abc"
            other.close()
        if __name__ == "__main__":
            memory = SharedMemory(create=True, size=1 << 20)
            memory.buf[:3] = b"abc"
            process = multiprocessing.get_context("spawn").Process(target=child, args=(memory.name,))
            process.start(); process.join()
            assert process.exitcode == 0
            if not os.fork():
                memory.buf[5000:5003] = b"def"
                os._exit(0)
            os.wait()
            with open("data", "wb") as f: f.write(bytes(1 << 20))
            with open("data", "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m: m.read()
            memory.close(); memory.unlink()
        """,
    )
    assert [row["touched"] for row in mapped(outcome, "/data")] == [MIB]
    assert all("/psm_" not in (row["path"] or "") for row in outcome.log.mappings().to_pylist())
    # The calls on it are there.
    assert {row["op_role"] for row in outcome.select(op=("mmap", "munmap")) if "/psm_" in (row["path"] or "")} == {
        "transport"
    }
