"""The exact matrix flow from moments alone (P1 eqs 3-4)."""
