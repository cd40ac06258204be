"""The coordination store at work on a member: its sessions and its client ports."""
