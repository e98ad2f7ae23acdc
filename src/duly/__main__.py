"""`python -m duly` is `duly`, also where no script of that name is on the path."""

import sys

from duly.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
