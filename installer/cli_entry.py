"""Start of `upreel-cli`, the console twin of the packaged program: only the command line."""

import multiprocessing
import sys

if __name__ == "__main__":
    multiprocessing.freeze_support()

    from engine.__main__ import main

    sys.exit(main())
