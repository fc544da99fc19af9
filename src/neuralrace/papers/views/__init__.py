"""The figures of P3, the race of views."""
