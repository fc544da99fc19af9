"""Here so that the tests below find theory_problems."""
