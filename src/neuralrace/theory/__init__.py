"""From the statistics of a problem to its learning curve, without training anything."""
