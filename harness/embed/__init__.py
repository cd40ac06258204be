"""The embedder's own machine, as it is shipped, under the faults that the store is tested with.

    import harness
    harness.campaign(MyMachine, model=MyModel, requests=draw).check()

`machine`    their machine inside the one that the checkers are told by
`world`      the stack world with it: every request numbered, every result kept
`held`       what was answered against what the model says, in the order of zxids and of real time
`roundtrip`  what needs no ensemble: restore(snapshot()) is the same machine, and two machines do the same
`elsewhere`  the same transactions in another process, with other hashes; `there` is what that process does
`runs`       many runs in several processes, each kind of failure made small
`report`     the report, as text and as JSON
"""
