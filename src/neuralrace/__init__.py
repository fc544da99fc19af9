"""Predict how gated deep linear networks and ReLU networks learn, and check it against training."""

import lazy_loader as _lazy

# each module is imported when one of its names is first used; __init__.pyi tells type checkers the same
__getattr__, __dir__, __all__ = _lazy.attach(
    __name__,
    ("analysis", "batches", "initial", "networks", "papers", "plotting", "reln", "tasks", "theory", "views", "weights"),
    {
        "activations": ("leaky_relu",),
        "analysis": ("agreement",),
        "architecture": ("Architecture", "Path"),
        "arrays": ("float64",),
        "errors": ("NeuralRaceError",),
        "explanation": ("Explanation", "explain"),
        "gates": ("Gates",),
        "problem": ("Problem",),
        "statistics": ("PathStatistics",),
        "sweeps": ("sweep",),
        "task": ("Task",),
        "theory": ("predict",),
        "training": ("ReLUNetwork", "RoutedNetwork", "train"),
        "trajectory": ("Trajectory", "compare"),
    },
)
