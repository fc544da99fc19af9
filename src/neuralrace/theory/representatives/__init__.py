"""One hidden layer of any width, followed by a few neurons that stand for all of them."""
