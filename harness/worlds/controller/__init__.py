"""What brokers are in every world where there are some: replicas without data, and what becomes of commands."""
