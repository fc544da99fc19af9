"""Measurements of the race of views (P3)."""
