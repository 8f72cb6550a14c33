"""Pictures of a run, each as SVG and as the table behind it."""

from pyio_trace.pictures.found import pictures_of
from pyio_trace.pictures.picture import Picture

__all__ = ["Picture", "pictures_of"]
