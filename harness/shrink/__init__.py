"""Shrink a failing script to a small one that violates the same invariant and needs each of its faults.

Each step removes or simplifies items, and keeps a change if the script still fails:

1. `cut`: the script ends at the violation;
2. `calm`: default timing and knobs, so that the next steps disturb less;
3. `delta`: faults and operations are removed by delta debugging;
4. `values`: the rest becomes short, small, and at round times;
5. `schedule`: all delays become equal, so that messages arrive in the order in which they were sent;
6. `proof`: each item is removed alone, and faults in pairs, if the script still fails without them.

No step relies on another: the last one tests exactly the script that is returned.
"""

from harness.shrink.proof import Proof, ddmin
from harness.shrink.shrink import Shrunk, same_invariant, shrink
from harness.shrink.trials import Broke, Moment, Stop

__all__ = ["Broke", "Moment", "Proof", "Shrunk", "Stop", "ddmin", "same_invariant", "shrink"]
