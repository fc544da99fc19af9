"""Speed as ratios, each measured side by side in one run against what a user would write by hand."""
