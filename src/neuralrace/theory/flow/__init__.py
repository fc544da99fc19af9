"""The exact gradient flow of any network (P1 eqs 3-4), and gradient descent."""
