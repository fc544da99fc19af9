"""Adaptive integration with an error that is relative for every mode."""
