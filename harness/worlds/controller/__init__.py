"""Parts of every world with controllers: replicas without data, administration through nodes, the end of a run."""
