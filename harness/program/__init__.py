"""Run a user's own Trio program, in several instances, on simulated servers under faults.

    import harness
    harness.application(main, nodes=3, invariant=at_most_one_leader).check()

`main(node)` runs once for each node, in the same deterministic simulation as the servers (`harness.worlds.stack`): Trio
on virtual time, a network and disks in memory, and a seeded order of tasks. The program uses its `node`, and its
invariants read the `fleet`. `process` is the process of a node. A killed process is frozen for ever, so that nothing it
would do while it unwinds has an effect. `nemesis` injects the faults of nodes, next to those of servers. `world` runs a
script, `generate` makes one from a seed, and `history` explains a failing run. `forbidden` refuses calls that would
make runs unrepeatable, `turns` ends a program that lets no time pass, and `culprit` finds the line of the user for the
messages. `runs` runs a campaign, as `harness.embed` does for a state machine, and `lookup` finds a program as
`module:main`.
"""
