"""Exact learning curves."""
