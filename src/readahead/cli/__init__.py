"""The command line: reads options, calls the engine, prints; decides nothing itself."""

from readahead.cli.app import main

__all__ = ["main"]
