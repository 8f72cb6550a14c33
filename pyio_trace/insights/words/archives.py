"""Compressed streams (gzip, bz2, lzma), and archives (tarfile, zipfile, numpy's .npz)."""

from __future__ import annotations

from pyio_trace.insights.finding import Remedy
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.insights.words.mechanisms import Words

_SEEKS = "with {}.open(path) as f:\n    for at in {}:\n        f.seek(at)\n        use(f.read(100))"


def _stream(name: str) -> Words:
    """The words for a module of compressed streams."""
    opened = f"with {name}.open(path, 'rt') as f:"
    adding = f"with {name}.open(path, 'at') as f:"
    return {
        (m.READ_AGAIN, name): Remedy(
            "Unpack it once, and keep what is used.",
            f"for key in keys:\n    {opened}\n        use([line for line in f if key in line])",
            f"{opened}\n    lines = f.readlines()    # unpacked once\n"
            "for key in keys:\n    use([line for line in lines if key in line])",
        ),
        (m.STEPPED_BACK, name): Remedy(
            "A step back unpacks the file from its start: go through it once, in its order.",
            _SEEKS.format(name, "places"),
            _SEEKS.format(name, "sorted(places)"),
        ),
        (m.OPENED_TO_ADD, name): Remedy(
            "Open it once: each opening packs anew, and begins without knowing what came before.",
            f"for item in items:\n    {adding}\n        f.write(item)",
            f"{adding}\n    for item in items:\n        f.write(item)",
        ),
    }


_PASS = (
    "wanted = set(names)\nwith tarfile.open(path) as archive:\n    for member in archive:    # in its order\n"
    "        if member.name in wanted:\n            use(archive.extractfile(member).read())"
)
_TAR = "A step back unpacks the archive from its start: take the members in their order, in one pass."
_ZIP_ONCE = "with zipfile.ZipFile(path) as archive:\n    for name in names:\n        use(archive.read(name))"
_ZIP = Remedy(
    "Open the archive once: each opening reads its directory.",
    "for name in names:\n    with zipfile.ZipFile(path) as archive:\n        use(archive.read(name))",
    _ZIP_ONCE,
)
_ADD = "for name, data in items:\n    with {0} as archive:\n        {1}"
_ADD_ONCE = "with {0} as archive:\n    for name, data in items:\n        {1}"
_ZIP_ADD = ("zipfile.ZipFile(path, 'a')", "archive.writestr(name, data)")
_TAR_ADD = ("tarfile.open(path, 'a')", "archive.add(name)")
_NPZ = Remedy(
    "Each use of archive['x'] reads and unpacks all of x: take it once, and keep it.",
    "with numpy.load(path) as archive:\n    for n in rows:\n        use(archive['x'][n])",
    "with numpy.load(path) as archive:\n    x = archive['x']    # once\nfor n in rows:\n    use(x[n])",
    "numpy",
)

WORDS: Words = {
    **_stream("gzip"),
    **_stream("bz2"),
    **_stream("lzma"),
    (m.READ_AGAIN, "tarfile"): Remedy(
        "Open the archive once, and take the members in their order: each opening reads it from its start.",
        "for name in names:\n    with tarfile.open(path) as archive:\n        use(archive.extractfile(name).read())",
        _PASS,
    ),
    (m.STEPPED_BACK, "tarfile"): Remedy(
        _TAR,
        "with tarfile.open(path) as archive:\n    for name in names:\n        use(archive.extractfile(name).read())",
        _PASS,
    ),
    (m.READ_AGAIN, "zipfile"): _ZIP,
    (m.STEPPED_BACK, "zipfile"): Remedy(
        "A step back unpacks the member from its start: read it once.",
        "with archive.open(name) as f:\n    for at in places:\n        f.seek(at)\n        use(f.read(100))",
        "data = archive.read(name)\nfor at in places:\n    use(data[at : at + 100])",
    ),
    (m.OPENED_TO_ADD, "zipfile"): Remedy(
        "Open the archive once: each opening reads its directory, and each close writes it.",
        _ADD.format(*_ZIP_ADD),
        _ADD_ONCE.format(*_ZIP_ADD),
    ),
    (m.OPENED_TO_ADD, "tarfile"): Remedy(
        "Open the archive once: each opening looks for its end.", _ADD.format(*_TAR_ADD), _ADD_ONCE.format(*_TAR_ADD)
    ),
    (m.READ_AGAIN, "npz"): Remedy(
        "Take the array out of the archive once, and keep it.",
        "for n in rows:\n    use(numpy.load(path)['x'][n])",
        "with numpy.load(path) as archive:\n    x = archive['x']    # once\nfor n in rows:\n    use(x[n])",
        "numpy",
    ),
    (m.STEPPED_BACK, "npz"): _NPZ,
    (m.UNPACKING, "npz"): Remedy(
        "Store arrays that are read often without compression, or in a format with a fast filter.",
        "np.savez_compressed(path, x=x)",
        "np.savez(path, x=x)    # or np.save, and np.load(..., mmap_mode='r')",
        "numpy",
    ),
    (m.PACKING, "gzip"): Remedy(
        "gzip.open() packs at level 9: a lower level takes less time, and makes little more.",
        "f = gzip.open(path, 'wt')",
        "f = gzip.open(path, 'wt', compresslevel=1)",
    ),
}
