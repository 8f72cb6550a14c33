"""Tests of pyio_trace.page: what is in the file, and what a browser makes of it."""
