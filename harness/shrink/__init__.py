"""From a failing script to a small one that fails in the same way, and needs each of its faults to fail.

Each step removes or simplifies something, and keeps what still fails:

1. `cut`: later events do not matter for earlier ones;
2. `calm`: default timing and knobs, so that the next steps disturb less;
3. `delta`: faults and operations are removed by delta debugging;
4. `values`: the rest becomes short, small, and at round times;
5. `schedule`: all delays become equal, so that messages arrive in the order in which they were sent;
6. `proof`: each item is removed alone, and faults in pairs; what is not needed goes.

No step relies on another: the last one tests the very script that is returned.
"""

from harness.shrink.proof import Proof, ddmin
from harness.shrink.shrink import Shrunk, same_invariant, shrink
from harness.shrink.trials import Broke, Moment

__all__ = ["Broke", "Moment", "Proof", "Shrunk", "ddmin", "same_invariant", "shrink"]
