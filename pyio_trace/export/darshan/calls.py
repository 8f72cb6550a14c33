"""Which operations the modules of HDF5 and MPI-IO count, and in which counter."""

from __future__ import annotations

import re
from typing import NamedTuple

from pyio_trace.analysis.calls.darshan_calls import Call


class Counted(NamedTuple):
    """kind: of Call, which says what timer and which histogram it belongs to; counter: that counts such calls."""

    kind: int
    counter: str = ""


# Call.STAT is any call that only adds to the time of metadata.
_OF_FILES = {
    "H5Fcreate": Counted(Call.OPEN, "OPENS"),
    "H5Fopen": Counted(Call.OPEN, "OPENS"),
    "H5Fflush": Counted(Call.STAT, "FLUSHES"),
    "H5Fclose": Counted(Call.CLOSE),
    "H5Idec_ref": Counted(Call.CLOSE),  # h5py closes this way
}
_OF_DATASETS = {
    "H5Dcreate": Counted(Call.OPEN, "OPENS"),
    "H5Dopen": Counted(Call.OPEN, "OPENS"),
    "H5Dread": Counted(Call.READ, "READS"),
    "H5Dwrite": Counted(Call.WRITE, "WRITES"),
    "H5Dflush": Counted(Call.STAT, "FLUSHES"),
    "H5Dclose": Counted(Call.CLOSE),
    "H5Idec_ref": Counted(Call.CLOSE),
}
_MPI = {
    "MPI_File_open": Counted(Call.OPEN, "COLL_OPENS"),
    "MPI_File_close": Counted(Call.CLOSE),
    "MPI_File_sync": Counted(Call.FSYNC, "SYNCS"),
    "MPI_File_set_view": Counted(Call.STAT, "VIEWS"),
    "MPI_File_set_info": Counted(Call.STAT),
}
_MPI_TRANSFER = re.compile(r"MPI_File_(i?)(read|write)(?:_at)?(_all|_ordered|_shared)?(_begin)?")


def hdf5_file_call(op: str) -> Counted | None:
    """What module H5F counts it as."""
    return _OF_FILES.get(op)


def hdf5_dataset_call(op: str) -> Counted | None:
    """What module H5D counts it as."""
    return _OF_DATASETS.get(op)


def mpiio_call(op: str) -> Counted | None:
    """What module MPI-IO counts it as.

    As in Darshan, a nonblocking call is that first, whether it is collective or not, and a split one counts where
    it begins.
    """
    found = _MPI_TRANSFER.fullmatch(op)
    if found is None:
        return _MPI.get(op)
    nonblocking, direction, collective, begin = found.groups()
    how = "SPLIT" if begin else "NB" if nonblocking else "COLL" if collective in ("_all", "_ordered") else "INDEP"
    return Counted(Call.READ if direction == "read" else Call.WRITE, f"{how}_{direction.upper()}S")
