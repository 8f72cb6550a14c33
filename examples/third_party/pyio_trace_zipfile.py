"""zipfile: which member of which archive, and how much of it."""

from __future__ import annotations

from pyio_trace.instruments import Instrument, Target


def _archive(zipfile, *args, **kwargs):
    return zipfile.filename


def _member(zipfile, name, *args, **kwargs):
    return {"member": getattr(name, "filename", name)}


def _source(zipfile, filename, arcname=None, *args, **kwargs):
    return {"member": str(arcname or filename)}


instrument = Instrument(
    "zipfile",
    version=lambda module: None,  # the standard library's: as old as Python
    targets=(
        Target("ZipFile.__init__", name="ZipFile", path="file"),
        Target("ZipFile.read", kind="read", path=_archive, details=_member, moved="len"),
        Target("ZipFile.extract", path=_archive, details=_member),
        Target("ZipFile.write", path=_archive, details=_source),
        Target("ZipFile.writestr", path=_archive, details=_member),
        Target("ZipFile.close", path=_archive),
    ),
)
