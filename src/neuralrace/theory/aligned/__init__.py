"""Paths with singular vectors of their own (P2 appendix F)."""
