"""Findings: what is slow, why, at which line, and what to do."""
