"""Plugins of pyio_trace for systems that start processes of their own: one module each, imported by name."""
