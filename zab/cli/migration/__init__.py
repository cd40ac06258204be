"""`zab migrate`: the steps that replace the servers of a running ensemble of ZooKeeper by servers of zab, and back."""
