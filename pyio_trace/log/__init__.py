"""Logs as they lie on disk: their layout and raw reading; pyio_trace.join gives them meaning."""
