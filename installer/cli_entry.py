"""Entry script of `upreel-cli`, the command line of the packaged program."""

import multiprocessing
import sys

if __name__ == "__main__":
    multiprocessing.freeze_support()

    from engine.__main__ import main

    sys.exit(main())
