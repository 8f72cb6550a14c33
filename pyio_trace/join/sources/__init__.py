"""Logs of every kind behind one interface, and the Log that pyio_trace.open() returns."""
