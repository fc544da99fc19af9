"""One file per figure; each declares EXPERIMENT."""
