"""Figures of questions that the papers leave open."""
