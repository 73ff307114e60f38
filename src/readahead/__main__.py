"""Run the command line with ``python -m readahead``."""

from readahead.cli import main

if __name__ == "__main__":
    main()
