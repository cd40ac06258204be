"""The simulator of cores: a heap of virtual time drives them, on disks in memory. A run is a function of its script."""
