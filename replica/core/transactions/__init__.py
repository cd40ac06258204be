"""The transaction coordinator: producers' transactions, which end in all of their partitions or in none."""
