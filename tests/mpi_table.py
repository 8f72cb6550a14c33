"""`python -m tests.mpi_table`: forms of MPI-IO, run by four ranks, against what the program computes, as Markdown.

Each rank tells what it asks for and gets.  A cell says whether each call has its row, with the computed place and
bytes, and how many of the system calls that read or write the file have a call of MPI-IO on that file above them, and
of HDF5 where that is used.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support import mpi
from tests.support.mpi import Job
from tests.support.programs import Outcome, Row, Runner, succeeded

HDF5 = "parallel HDF5"
#: By form, a program that uses the file "data" (file per process: "data-RANK").
FORMS = {
    "independent": """
file = opened("data")
for i in range(8):
    place = (i * size + rank) * 500
    file.Write_at(place, bytes(500)); tell("MPI_File_write_at", "data", place, 500, 500)
settle(file)
for i in range(8):
    place = (i * size + (rank + 1) % size) * 500
    file.Read_at(place, bytearray(500)); tell("MPI_File_read_at", "data", place, 500, 500)
file.Close()
""",
    "collective": """
file = opened("data")
for i in range(8):
    place = (i * size + rank) * 500
    file.Write_at_all(place, bytes(500)); tell("MPI_File_write_at_all", "data", place, 500, 500)
settle(file)
for i in range(8):
    place = (i * size + (rank + 1) % size) * 500
    file.Read_at_all(place, bytearray(500)); tell("MPI_File_read_at_all", "data", place, 500, 500)
file.Close()
""",
    "shared pointer": """
file = opened("data")
for i in range(8): file.Write_shared(bytes(500)); tell("MPI_File_write_shared", "data", None, 500, 500)
settle(file)
file.Seek_shared(0)
for i in range(4): file.Read_ordered(bytearray(500)); tell("MPI_File_read_ordered", "data", None, 500, 500)
file.Close()
""",
    "split": """
file = opened("data")
for i in range(8):
    place, data = (i * size + rank) * 500, bytes(500)
    file.Write_at_all_begin(place, data); file.Write_at_all_end(data)
    tell("MPI_File_write_at_all_begin", "data", place, 500, 500)
settle(file)
for i in range(8):
    place, room = (i * size + rank) * 500, bytearray(500)
    file.Read_at_all_begin(place, room); file.Read_at_all_end(room)
    tell("MPI_File_read_at_all_begin", "data", place, 500, 500)
file.Close()
""",
    "nonblocking": """
file = opened("data")
places = [(i * size + rank) * 500 for i in range(8)]
MPI.Request.Waitall([file.Iwrite_at(place, bytes(500)) for place in places])
for place in places: tell("MPI_File_iwrite_at", "data", place, 500, 500)
settle(file)
for place in places: file.Iread_at(place, bytearray(500)).Wait(); tell("MPI_File_iread_at", "data", place, 500, 500)
for place in places:
    file.Iwrite_at_all(place, bytes(500)).Wait(); tell("MPI_File_iwrite_at_all", "data", place, 500, 500)
file.Close()
""",
    "strided view": """
file = opened("data")
block = MPI.BYTE.Create_vector(1, 100, 100).Create_resized(0, size * 100).Commit()
file.Set_view(40 + rank * 100, MPI.BYTE, block)
for i in range(8):
    place = 40 + rank * 100 + i * 500 * size
    file.Write_at_all(i * 500, bytes(500)); tell("MPI_File_write_at_all", "data", place, 500, 500)
settle(file)
for i in range(8):
    place = 40 + rank * 100 + i * 500 * size
    file.Read_at(i * 500, bytearray(500)); tell("MPI_File_read_at", "data", place, 500, 500)
file.Close()
""",
    "file per process": """
file = opened(f"data-{rank}", comm=MPI.COMM_SELF)
for i in range(8): file.Write(bytes(500)); tell("MPI_File_write", f"data-{rank}", i * 500, 500, 500)
file.Seek(0)
for i in range(8): file.Read(bytearray(500)); tell("MPI_File_read", f"data-{rank}", i * 500, 500, 500)
file.Close()
""",
    HDF5: """
import h5py, numpy
with h5py.File("data", "w", driver="mpio", comm=world) as file:
    data = file.create_dataset("x", (8 * size * 500,), "u1")
    for i in range(8):
        place = (i * size + rank) * 500
        with data.collective: data[place : place + 500] = numpy.zeros(500, "u1")
        tell("H5Dwrite", "data", None, 500, 500)
""",
}


#: No wheel has parallel HDF5.
NEITHER = ("MPICH wheel, mpi4py", HDF5)
#: How the ranks of each column are run.
LIBRARIES: dict[str, Callable[[Runner, str], Job]] = {
    "MPICH wheel, mpi4py": mpi.run, "Debian's Open MPI, mpi4py": mpi.run_parallel_hdf5
}  # fmt: skip


class Found(NamedTuple):
    """computed, seen: calls of all ranks, as (rank, op, path, offset, bytes requested, bytes moved).

    calls: system calls that read or write their files; beneath: how many of them have the call of MPI-IO, and of
    HDF5, above them; written: bytes that they wrote.
    """

    computed: list[tuple[object, ...]]
    seen: list[tuple[object, ...]]
    calls: int
    beneath: int
    written: int

    def equal(self) -> bool:
        """Whether nothing differs from what was computed."""
        same = sorted(self.seen, key=str) == sorted(self.computed, key=str)
        return bool(self.computed) and same and self.calls == self.beneath > 0


def _above(outcome: Outcome, row: Row) -> Iterator[Row]:
    ids = {one["id"]: one for one in outcome.rows}
    while (parent := ids.get(row["parent"])) is not None:
        yield parent
        row = parent


def found(job: Job, layer: str) -> Found:
    """What was seen of a job, against what it computed."""
    computed: list[tuple[object, ...]] = []
    seen: list[tuple[object, ...]] = []
    calls = beneath = written = 0
    for rank, outcome in enumerate(job.ranks):
        told = job.told(rank)
        files = {one[1] for one in told}
        computed += [(rank, *one) for one in told]
        for row in outcome.select(op_class=("read", "write")):
            if row["path"] not in files or not row["bytes_requested"]:  # such as the library's own files
                continue
            if row["layer"] == layer:
                numbers = row["file_offset"], row["bytes_requested"], row["bytes_moved"]
                seen.append((rank, row["op"], row["path"], *numbers))
            elif row["layer"] == "posix":
                above = {one["layer"] for one in _above(outcome, row) if one["path"] == row["path"]}
                calls, beneath = calls + 1, beneath + (above >= {"mpiio", layer})
                written += row["bytes_moved"] if row["op_class"] == "write" else 0
    return Found(computed, seen, calls, beneath, written)


def run(library: str, form: str) -> Found:
    """Raises AssertionError if the job fails."""
    with tempfile.TemporaryDirectory(prefix="pyio-mpi-") as folder:
        job = LIBRARIES[library](Runner(Path(folder).resolve()), f"{FORMS[form]}leave()\n")
        succeeded(job.outcome)
        return found(job, "hdf5" if form == HDF5 else "mpiio")


def _ranks(rows: list[tuple[object, ...]]) -> int:
    return len({row[0] for row in rows})


def _size(rows: list[tuple[object, ...]]) -> int:
    return sum(int(row[-1]) for row in rows if isinstance(row[-1], int))


def _cell(one: Found) -> str:
    ranks, size = ([count(rows) for rows in (one.seen, one.computed)] for count in (_ranks, _size))
    words = [
        f"calls {len(one.seen)} of {len(one.computed)}", f"ranks {ranks[0]} of {ranks[1]}",
        f"bytes {size[0]:,} of {size[1]:,}",
        f"parents {one.beneath} of {one.calls}", f"written {one.written:,}",
    ]  # fmt: skip
    return ("equal: " if one.equal() else "DIFFERS: ") + "; ".join(words)


def main() -> int:
    """Prints the table; status 1 if something differs."""
    print("| form | " + " | ".join(LIBRARIES) + " |\n| --- |" + " --- |" * len(LIBRARIES))
    differs = False
    for form in FORMS:
        cells = []
        for library in LIBRARIES:
            one = None if (library, form) == NEITHER else run(library, form)
            differs |= one is not None and not one.equal()
            cells.append("no wheel has it" if one is None else _cell(one))
        print(f"| {form} | {' | '.join(cells)} |", flush=True)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
