"""Pillow: images that are opened, and decoded when their pixels are first needed.

ImageFile.load() is called by each method that needs pixels, getpixel() too: watching it takes half as long again as
getpixel().  load_prepare() is called once, just before the image is decoded.
"""

from __future__ import annotations

from pyio_trace.capture.instrumentation.instrument import Instrument, Target
from pyio_trace.capture.instruments._files import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Bytes of a pixel in memory, by mode.  Others have four, or two (I;16 and its like).
_BYTES = {"1": 1, "L": 1, "P": 1, "LA": 4, "PA": 4}


def _get(image: object, name: str) -> Any:
    """An attribute of an image.  Not by its __dict__: once that exists, Python looks up each attribute more slowly."""
    try:
        return object.__getattribute__(image, name)
    except AttributeError:
        return None


def _file(image: object, *args: object, **kwargs: object) -> Any:
    """The file that it is read from."""
    return _get(image, "fp")


def _image(image: object) -> dict[str, object] | None:
    size, mode = _get(image, "_size"), _get(image, "_mode")
    return {"size": size, "mode": mode} if type(size) is tuple and type(mode) is str else None


def _opened(result: object, *args: object, **kwargs: object) -> dict[str, object] | None:
    name = type.__getattribute__(type(result), "__dict__").get("format")
    return {"format": plain(name), **(_image(result) or {})} if isinstance(name, str) else _image(result)


def _loaded(result: object, image: object) -> dict[str, object] | None:
    return _image(image)


def _decoded(result: object, image: object) -> int | None:
    """The bytes of the pixels, as they are in memory."""
    mode = _get(image, "_mode")
    width, height = _get(image, "_size")
    return int(width * height * (2 if mode.startswith("I;16") else _BYTES.get(mode, 4)))


instrument = Instrument(
    "PIL",
    targets=(
        Target("open", module="PIL.Image", name="Image.open", path="fp", after=_opened),
        Target("ImageFile.load_prepare", module="PIL.ImageFile", path=_file, after=_loaded, moved=_decoded),
    ),
)
