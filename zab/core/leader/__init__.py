"""The leader's side of the consensus.

How an epoch begins (Junqueira, Reed, Serafini, "Zab: High-performance broadcast for primary-backup systems", DSN 2011;
ZooKeeper's Leader and LearnerHandler):

1. *Discovery.* Each server of a quorum reports the newest epoch that it has promised. The leader chooses a newer
   one, makes its own promise durable, and asks for the promises of the others. It continues once a quorum has
   promised, and each quorum contains a server that has promised and has no committed transaction that the leader
   lacks. Then no older leader can commit anything any more, and the leader has everything that was ever committed.
2. *Synchronization.* The leader adopts the epoch. Each learner that has promised receives what its history lacks, and
   NEWLEADER. When a quorum has acknowledged NEWLEADER, the leader included, the initial history is committed.
3. *Broadcast.* The leader gives a zxid to each transaction, and commits what a quorum has on disk.

docs/architecture.md lists what must be durable before which message ("What is durable when").

`Leader` is one attempt to lead: it owns the links, the current phase and the deadlines. Each phase is an object, and
state that is valid in only one phase ends with it. `LearnerHandshake` takes each learner from its first message to
broadcast, by the same steps in every phase; the phase counts the learners that completed a step. `CommitAccounting`
decides which transactions are committed.
"""
