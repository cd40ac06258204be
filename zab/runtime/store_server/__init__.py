"""A running coordination store on a member: its sessions and its client ports."""
