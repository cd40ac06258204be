"""The learner's side of the protocol: followers and observers.

A learner dials its leader and goes through the phases of Zab (Junqueira, Reed, Serafini, DSN 2011; ZooKeeper's Learner,
Follower and Observer): it promises the leader's epoch, takes over the leader's history, adopts the epoch, and then logs
new transactions. A follower acknowledges them; an observer receives them only when they are committed.

docs/architecture.md lists what must be durable before which message ("What is durable when").

`Learner` is one attempt to follow one leader: it owns the link, the current phase and the deadlines. Each phase is an
object, and state that is valid in only one phase ends with it.
"""
