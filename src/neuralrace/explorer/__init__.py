"""The explorer: a page in the browser that shows the forecast at once and training as it arrives."""
