"""The pages of the web console about brokers: topics, records, groups and transactions.

They use Kafka's protocol, so they also show a cluster of Kafka's own brokers. `BrokerPart` joins the pages to the
console of `zab.console`.
"""
