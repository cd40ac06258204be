"""Test a user's state machine under the faults with which the store is tested.

    import harness
    harness.campaign(MyMachine, model=MyModel, requests=draw).check()

`model` describes the system under test: machine, model, requests and `state`; `lookup` finds it as `module:Class`.
`world` is the world stack with the machine, inside an `adapter` that reports to the checkers. `calls` checks the calls
against the model, in the order of zxids and of real time, and `client_history` shows the history of a failing run.
`roundtrip` checks snapshots without an ensemble, and `other_process` applies the same transactions in a `child` process
with other hash seeds and another clock. `runs` runs a campaign and shrinks its failures; `report` is the result.
"""
