"""Parallel HDF5: the transfer that a call asks for, the one that is done, and why it is another.

What HDF5 says is asked by the program too, after each call, of the same library.
"""

from __future__ import annotations

import json

import pytest

from tests.support import mpi
from tests.support.mpi import RANKS, detail
from tests.support.programs import Runner, succeeded

#: Each call is followed by what the program itself asks; low-level calls, as h5py leaves out empty ones.
PROGRAM = """
import ctypes, h5py, numpy as np
from h5py import h5d, h5fd, h5p, h5s, h5t
library = ctypes.CDLL(next(line.split()[-1] for line in open("/proc/self/maps") if "libhdf5_openmpi.so" in line))
collective, independent = h5p.create(h5p.DATASET_XFER), h5p.create(h5p.DATASET_XFER)
collective.set_dxpl_mpio(h5fd.MPIO_COLLECTIVE)
independent.set_dxpl_mpio(h5fd.MPIO_INDEPENDENT)
said = []
def ask(dxpl):
    here, anywhere, used = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_int()
    id = ctypes.c_int64(dxpl.id)
    assert library.H5Pget_mpio_actual_io_mode(id, ctypes.byref(used)) >= 0
    assert library.H5Pget_mpio_no_collective_cause(id, ctypes.byref(here), ctypes.byref(anywhere)) >= 0
    said.append([dxpl.get_dxpl_mpio(), used.value, here.value, anywhere.value])
def move(call, data, dxpl, select=lambda space: space.select_hyperslab((rank * 10,), (10,))):
    there = data_set.get_space()
    select(there)
    here = h5s.create_simple((10,))
    if there.get_select_npoints() == 0:
        here.select_none()
    elif there.get_select_npoints() < 10:
        here.select_hyperslab((0,), (there.get_select_npoints(),))
    call(here, there, data, dxpl=dxpl)
    ask(dxpl)
file = h5py.File("data.h5", "w", driver="mpio", comm=world)
data = np.arange(10, dtype="f8")
data_set = file.create_dataset("plain", (size * 10,), "f8").id
move(data_set.write, data, collective)
move(data_set.write, data, independent)
move(data_set.write, data.astype("i8"), collective)  # converted
move(data_set.write, data, collective, lambda space: space.select_elements([(rank * 10 + 1,), (rank * 10 + 7,)]))
move(data_set.write, data, collective,
     lambda space: space.select_none() if rank == 1 else space.select_hyperslab((rank * 10,), (10,)))
move(data_set.read, data, collective)
move(data_set.read, data, independent)
made = h5p.create(h5p.DATASET_CREATE)
made.set_chunk((10,))
data_set = h5d.create(file.id, b"chunks", h5t.NATIVE_DOUBLE, h5s.create_simple((size * 10,)), dcpl=made)
move(data_set.write, data, collective)
made.set_deflate(1)
data_set = h5d.create(file.id, b"filtered", h5t.NATIVE_DOUBLE, h5s.create_simple((size * 10,)), dcpl=made)
move(data_set.write, data, collective)
file["plain"][rank * 10 : rank * 10 + 10] = data  # H5P_DEFAULT, which keeps nothing
del data_set
file.close()
with open(f"said-{rank}.json", "w") as told:
    json.dump(said, told)
with h5py.File(f"alone-{rank}.h5", "w") as alone:  # no file of MPI-IO
    alone["data"] = data
"""
#: Bits of H5D_mpio_no_collective_cause_t in HDF5 1.10.
CAUSES = ("set_independent", "datatype_conversion")


def test_each_call_says_how_it_was_done(program: Runner) -> None:
    # GIVEN four ranks that write and read one file in many ways WHEN they are traced
    job = mpi.run_parallel_hdf5(program, PROGRAM)
    succeeded(job.outcome)
    words = ("independent", "chunks independent", "chunks collective", "chunks mixed", "collective")
    for rank in range(RANKS):
        rows = job.ranks[rank].select(layer="hdf5", op=("H5Dwrite", "H5Dread"))
        ours = [detail(row) for row in rows if row["path"] == str(program.folder / "data.h5")]
        said = json.loads((program.folder / f"said-{rank}.json").read_text())
        assert len(ours) == len(said) + 1
        # THEN each row says what HDF5 has said to the program
        for found, (asked, used, here, anywhere) in zip(ours, said, strict=False):
            assert found["transfer"] == ("collective" if asked else "independent")
            assert found.get("actual") == (words[used] if asked else None)
            for key, bits in (("local_cause", here), ("global_cause", anywhere)):
                causes = found.get(key, [])
                assert isinstance(causes, list)
                assert bool(causes) == bool(asked and (here or anywhere)) or not bits
                assert not asked or [cause for cause in causes if cause in CAUSES] == [
                    word for number, word in enumerate(CAUSES) if bits >> number & 1
                ]
        # AND these are the differences: one call was converted; an empty selection and single points are collective
        asked_for = [one["actual"] for one in ours if one["transfer"] == "collective"]
        assert asked_for[:5] == ["collective", "independent", "collective", "collective", "collective"]
        assert str(asked_for[5]).startswith("chunks") and str(asked_for[6]).startswith("chunks")
        assert ours[-1]["transfer"] == "independent" and ours[-1]["dataset"] == "/plain"
        # AND a file that only this rank has says nothing of it
        [alone] = job.ranks[rank].select(op="H5Dwrite", path=str(program.folder / f"alone-{rank}.h5"))
        assert "transfer" not in detail(alone)


@pytest.mark.parametrize("mode", ["trace", "profile"])
def test_failed_calls_keep_their_errors(program: Runner, mode: str) -> None:
    # GIVEN a call that fails: the library is not asked after it, as that would clear its errors
    text = """
import h5py, numpy as np
from h5py import h5s
file = h5py.File("data.h5", "w", driver="mpio", comm=world)
made = file.create_dataset("data", (10,), "f8")
try:
    made.id.write(h5s.create_simple((3,)), h5s.create_simple((4,)), np.zeros(3))
except Exception as error:
    print(error)
file.close()
"""
    job = mpi.run_parallel_hdf5(program, text, ("--mode", mode), ranks=2)
    # THEN the program sees them
    succeeded(job.outcome)
    assert job.outcome.stdout.count("src and dest") == 2, job.outcome.stdout
