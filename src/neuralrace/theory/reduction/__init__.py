"""The neural race reduction: one scalar per edge and mode, lumped (P1 eq. 10)."""
