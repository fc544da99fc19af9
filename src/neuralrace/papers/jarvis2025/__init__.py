"""Figures of Jarvis, Klein, Rosman and Saxe 2025, "Make Haste Slowly" (P2)."""
