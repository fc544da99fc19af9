"""`python -m neuralrace` is the command line."""

from neuralrace.cli import main

if __name__ == "__main__":
    main()
