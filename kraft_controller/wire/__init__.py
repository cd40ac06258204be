"""What the controller says to others: the nodes of the store, as Kafka lays them out, and the commands to brokers."""
