"""Clients of brokers that write down what they ask and are told, over whatever network a world has.

`tape`       the record that `harness.checkers.records` judges
`producer`   sends values one batch after the other, idempotent or not, and tries until its patience is at its end
`consumer`   reads a partition from its beginning, on and on; commits where it is, and looks whether that is remembered
`reader`     reads everything when all is healed
`verdict`    what it adds up to
"""
