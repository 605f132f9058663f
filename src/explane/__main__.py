"""Runs the command line as `python -m explane`."""

from explane.cli.main import main

if __name__ == "__main__":
    main()
