"""A user's own machine, as it is shipped, under the faults that the store is tested with.

    import harness
    harness.campaign(MyMachine, model=MyModel, requests=draw).check()

`system`     the system under test: machine, model, requests and state; `named` finds it as `module:Class`
`machine`    the user's machine inside the one that reports to the checkers
`world`      the stack world with it: every request numbered, every result kept
`held`       the calls checked against the model, in the order of zxids and of real time
`client_history`  the history of a failing run for its reader: invoke, ok, fail, info, nemesis, and the objection
`roundtrip`  checks without an ensemble: restore(snapshot()) is the same machine, and two machines do the same
`elsewhere`  the same transactions in another process, with other hashes; `there` is the code of that process
`runs`       many runs in several processes, each kind of failure made small; one run again
`report`     the report, as text and as JSON
"""
