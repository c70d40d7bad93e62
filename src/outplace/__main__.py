"""`python -m outplace` is the `outplace` command."""

import sys

from outplace.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
