"""What a person is shown of a run."""
