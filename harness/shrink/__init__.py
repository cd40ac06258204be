"""From a failing script to a small one that fails in the same way, in which every fault that is left is needed.

Each step takes something out, or makes something plainer, and keeps what still fails:

1. `cut`: nothing that comes late matters for what happened before;
2. `calm`: the usual speed and settings, where the failure survives them, so that what follows disturbs less;
3. `delta`: whole faults and operations go, by delta debugging;
4. `values`: what is left becomes plain: short, small, at round times;
5. `schedule`: every delay the same, so that words arrive in the order in which they were said;
6. `proof`: each item that is left is taken out alone, and pairs of faults. Whatever is not missed, goes.

A step never believes another: what the last one proves, it has seen in the script as it is handed out.
"""

from harness.shrink.delta import ddmin
from harness.shrink.proof import Proof
from harness.shrink.shrink import Shrunk, same_promise, shrink
from harness.shrink.trials import Broke, Moment

__all__ = ["Broke", "Moment", "Proof", "Shrunk", "ddmin", "same_promise", "shrink"]
