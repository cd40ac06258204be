"""The parts that all worlds with controllers share: replicas without data, administration, the end of a run."""
