"""Controllers as shipped, in processes that are killed and paused, over simulated streams on virtual time."""
