"""Malformed logs, and every way of reading them."""
