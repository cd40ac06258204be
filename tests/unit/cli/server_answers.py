"""Answers of real servers: a leader of Apache ZooKeeper 3.9.5, and a follower of zab in its ensemble.

Paths are shortened, and mntr has a few of its lines.
"""

from __future__ import annotations

from typing import Final

LEADER: Final = 2
OURS: Final = 3
ZXID: Final = 0x10000000E

SRVR_LEADER: Final = """\
Zookeeper version: 3.9.5-293c895a8d966a3ecb92872be4a1daf87d725da2, built on 2026-02-11 20:18 UTC
Latency min/avg/max: 0/0.0/0
Received: 4
Sent: 3
Connections: 1
Outstanding: 0
Zxid: 0x10000000e
Mode: leader
Node count: 8
Proposal sizes last/min/max: 56/36/160
"""

MNTR_LEADER: Final = """\
zk_version	3.9.5-293c895a8d966a3ecb92872be4a1daf87d725da2, built on 2026-02-11 20:18 UTC
zk_server_state	leader
zk_peer_state	leading - broadcast
zk_ephemerals_count	0
zk_num_alive_connections	1
zk_outstanding_requests	0
zk_znode_count	8
zk_global_sessions	0
zk_synced_followers	2
zk_synced_non_voting_followers	0
zk_synced_observers	0
zk_last_proposal_size	56
zk_pending_syncs	0
zk_leader_uptime	9670
zk_uptime	9843
zk_learners	2
zk_quorum_size	3
zk_connection_rejected	0
zk_diff_count	1
zk_unsuccessful_handshake	0
zk_outstanding_changes_queued	23
zk_looking_count	1
zk_digest_mismatches_count	0
zk_snap_count	1
"""

CONF_ZOOKEEPER: Final = """\
clientPort=14073
secureClientPort=-1
dataDir=/data/2/data/version-2
dataDirSize=67109498
dataLogDir=/data/2/data/version-2
dataLogSize=67109498
tickTime=1000
maxClientCnxns=60
minSessionTimeout=2000
maxSessionTimeout=20000
clientPortListenBacklog=-1
serverId=2
initLimit=20
syncLimit=10
electionAlg=3
electionPort=16216
quorumPort=19813
peerType=0
membership:
server.1=127.0.0.1:17233:29184:participant
server.2=127.0.0.1:19813:16216:participant
server.3=127.0.0.1:25202:14580:participant
version=0
"""

SRVR_ZAB: Final = """\
Zookeeper version: 3.9.5-zab-1.0.0, built on 11/20/2026 00:00 UTC
Latency min/avg/max: 2/17.0679/29
Received: 14
Sent: 14
Connections: 0
Outstanding: 0
Zxid: 0x10000000e
Mode: follower
Node count: 7
"""

MNTR_ZAB: Final = """\
zk_version	3.9.5-zab-1.0.0, built on 11/20/2026 00:00 UTC
zk_server_state	follower
zk_peer_state	following - broadcast
zk_peer_protocol	zookeeper
zk_num_alive_connections	0
zk_connection_rejected	0
zk_unsuccessful_handshake	0
zk_outstanding_requests	0
zk_znode_count	7
zk_ephemerals_count	0
zk_global_sessions	0
zk_digest_mismatches_count	0
zk_uptime	744
zk_quorum_size	3
zk_looking_count	1
zk_diff_count	0
zk_snap_count	0
"""

CONF_ZAB: Final = """\
clientPort=27740
secureClientPort=-1
dataDir=/data/ours3
dataDirSize=16785779
dataLogDir=/data/ours3
dataLogSize=16785779
tickTime=1000
maxClientCnxns=60
minSessionTimeout=2000
maxSessionTimeout=20000
clientPortListenBacklog=-1
serverId=3
initLimit=20
syncLimit=10
electionAlg=3
electionPort=14580
quorumPort=25202
peerType=0
membership:
server.1=127.0.0.1:17233:29184:participant
server.2=127.0.0.1:19813:16216:participant
server.3=127.0.0.1:25202:14580:participant
version=0
"""
