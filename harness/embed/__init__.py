"""A user's own machine, as it is shipped, under the faults that the store is tested with.

    import harness
    harness.campaign(MyMachine, model=MyModel, requests=draw).check()

`model` has the system under test: machine, model, requests and `state`; `lookup` finds it as `module:Class`. `world`
is the world stack with the machine, inside an `adapter` that reports to the checkers. `calls` checks the calls against
the model, in the order of zxids and of real time, and `client_history` shows the history of a failing run. `roundtrip`
checks snapshots without an ensemble, and `other_process` applies the same transactions in a `child` with other hashes
and another clock. `runs` runs a campaign and shrinks its failures; `report` is the result.
"""
