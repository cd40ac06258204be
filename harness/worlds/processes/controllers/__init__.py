"""Brokers without data on a store of real servers, whose controller is killed in rounds."""
