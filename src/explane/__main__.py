"""Runs the command line as `python -m explane`."""

import sys

from explane.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
