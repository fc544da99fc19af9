"""Predict how gated deep linear networks and ReLU networks learn, and check it against training."""

import lazy_loader as _lazy

# the names and their modules stand in __init__.pyi; each module is imported when one of its names is first used
__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
