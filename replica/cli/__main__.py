"""`python -m replica.cli` is `zab-broker`."""

import sys

from replica.cli import main

sys.exit(main())
