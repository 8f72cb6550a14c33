"""Logs nobody would write, and every way of reading them."""
