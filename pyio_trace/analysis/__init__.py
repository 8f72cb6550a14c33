"""Computes figures from a log in passes over its columns; pyio_trace.report puts them into words."""
