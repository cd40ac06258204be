"""Run a user's own Trio program, in several instances, on simulated servers under faults.

    import harness
    harness.application(main, nodes=3, invariant=at_most_one_leader).check()

`main(node)` runs once for each node, in the same deterministic simulation as the servers (`harness.worlds.stack`): Trio on
virtual time, a network and disks in memory, and a seeded order of tasks. `node` is what the program sees, `fleet` what its
invariants read. `process` is the process of a node: a killed one is frozen for ever, so that nothing it would do while it
unwinds has an effect. `nemesis` injects the faults of nodes, next to those of servers. `world` runs a script, and
`generate` makes one from a seed. `forbidden` refuses calls that would make runs unrepeatable, and `runs` runs a campaign,
shrinks its failures and reports them, as `harness.embed` does for a state machine.
"""
