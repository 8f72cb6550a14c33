"""What the system calls the files of a log: device and inode, which logs of one host have in common.

A Parquet log carries them as a text.  The text may be anyone's; whatever it claims,
reading it takes no more memory than the most files that a log keeps.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

#: The name of the attachment.
NAME = "files"
_VERSION = 1
#: Most files that are kept, the first ones.
MOST = 1 << 20


class Identities(NamedTuple):
    """Files by number, ascending; device, inode: as stat has them (the bits of a uint64)."""

    file: Ints
    device: Ints
    inode: Ints


NOTHING = Identities(*(np.zeros(0, np.int64) for _ in range(3)))


def encoded(files: Identities) -> str:
    """The text of identities; decoded() reads it."""
    import pyarrow as pa

    rows = min(len(files.file), MOST)
    differences = [np.diff(column[:rows], prepend=0) for column in files]
    raw = b"".join(column.view(np.uint8).reshape(-1, 8).T.tobytes() for column in differences)
    packed = pa.compress(raw, codec="zstd", asbytes=True)
    return f"{_VERSION} {rows} {base64.b64encode(packed).decode()}"


def decoded(text: str) -> Identities:
    """The identities of a text.  Raises ValueError for a text that encoded() has not written."""
    import pyarrow as pa

    words = text.split(" ")
    if len(words) != 3 or words[0] != str(_VERSION) or not words[1].isdecimal() or len(words[1]) > 9:
        raise ValueError("not identities of this version")
    rows = int(words[1])
    if not 0 < rows <= MOST:
        raise ValueError("too many files")
    try:
        raw = pa.decompress(base64.b64decode(words[2], validate=True), rows * 24, "zstd", asbytes=True)
    except (pa.ArrowException, binascii.Error, OSError) as error:
        raise ValueError(str(error)) from None
    if len(raw) != rows * 24:
        raise ValueError("cut off")
    with np.errstate(over="ignore"):
        columns = [
            np.cumsum(
                np.frombuffer(raw, np.uint8, rows * 8, at * rows * 8).reshape(8, rows).T.copy().view(np.int64).ravel()
            )
            for at in range(3)
        ]
    found = Identities(*columns)
    if int(found.file[0]) < 1 or (np.diff(found.file) < 1).any():
        raise ValueError("not in order")
    return found
