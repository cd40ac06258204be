"""Run `zab-broker` with `python -m replica.cli`."""

import sys

from replica.cli import main

sys.exit(main())
