"""Predict how gated deep linear networks and ReLU networks learn, and check it against training."""
