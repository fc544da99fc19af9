"""Figures of Saxe, Sodhani and Lewallen 2022, "The Neural Race Reduction" (P1)."""
