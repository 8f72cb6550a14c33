"""Figures and tables into text, for people and for programs."""
