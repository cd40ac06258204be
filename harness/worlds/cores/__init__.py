"""The first world: cores turned on a heap of virtual time, with memory disks. A run is a function of its script."""
