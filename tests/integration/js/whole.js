// kafkajs, unmodified: administers, produces in every way that it knows, and consumes in a group.
// It says what it found line by line, and waits for a line where the test shall change something.
const { Kafka, CompressionCodecs, CompressionTypes, AssignerProtocol, ConfigResourceTypes, logLevel } = require('kafkajs')
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

const hosts = process.argv[2].split(',')
const replicas = Number(process.argv[3])
const kafka = new Kafka({
  clientId: 'js', brokers: hosts, logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 200 },
})
const sleep = require('timers/promises').setTimeout
const say = (...words) => console.log(words.join(' '))
const lines = require('readline').createInterface({ input: process.stdin })[Symbol.asyncIterator]()

const admin = kafka.admin()
const sent = new Map()

async function produce(label, settings, options) {
  const producer = kafka.producer({ allowAutoTopicCreation: false, ...settings })
  await producer.connect()
  for (let batch = 0; batch < 4; batch++) {
    const messages = []
    for (let number = 0; number < 25; number++) {
      const value = `${label} ${batch * 25 + number}`
      sent.set(value, (sent.get(value) || 0) + 1)
      messages.push({ key: `${label}`, value, headers: { from: label, empty: '' } })
    }
    await producer.send({ topic: 't', messages, ...options })
  }
  await producer.disconnect()
}

// Members of one group that read until they have it all between them.
async function consume(group, members, count, settings = {}) {
  const found = new Map()
  const orders = new Map()
  let all
  const enough = new Promise(resolve => { all = resolve })
  const consumers = []
  for (let member = 0; member < members; member++) {
    const consumer = kafka.consumer({ groupId: group, maxWaitTimeInMs: 200, ...settings })
    await consumer.connect()
    await consumer.subscribe({ topic: 't', fromBeginning: true })
    await consumer.run({
      eachMessage: async ({ partition, message }) => {
        const value = message.value.toString()
        if (message.headers.from && message.headers.from.toString() !== value.split(' ')[0]) say('wrong header', value)
        found.set(value, (found.get(value) || 0) + 1)
        const [label, number] = value.split(' ')
        const last = orders.get(label)
        if (last !== undefined && last >= Number(number)) say('out of order', value, 'after', last)
        orders.set(label, Number(number))
        if (found.size >= count) all()
      },
    })
    consumers.push(consumer)
  }
  await enough
  const described = await admin.describeGroups([group])
  const { groupId, state, protocol } = described.groups[0]
  say('group', groupId, state, protocol, described.groups[0].members.length)
  for (const consumer of consumers) await consumer.disconnect()
  return found
}

async function main() {
  await admin.connect()
  const cluster = await admin.describeCluster()
  say('brokers', cluster.brokers.length)
  await admin.createTopics({
    waitForLeaders: true,
    topics: [{ topic: 't', numPartitions: 2, replicationFactor: replicas,
               configEntries: [{ name: 'min.insync.replicas', value: '1' }] }],
  })
  await admin.createPartitions({ topicPartitions: [{ topic: 't', count: 3 }] })
  let metadata
  do { metadata = await admin.fetchTopicMetadata({ topics: ['t'] }) }
  while (metadata.topics[0].partitions.length !== 3 || metadata.topics[0].partitions.some(each => each.leader < 0))
  say('partitions', metadata.topics[0].partitions.length, 'of', metadata.topics[0].partitions[0].replicas.length)
  await admin.alterConfigs({ validateOnly: false, resources: [
    { type: ConfigResourceTypes.TOPIC, name: 't', configEntries: [
      { name: 'min.insync.replicas', value: '1' }, { name: 'retention.ms', value: '86400000' }] }] })
  let retention
  do {
    const described = await admin.describeConfigs({ includeSynonyms: false, resources: [
      { type: ConfigResourceTypes.TOPIC, name: 't', configNames: ['retention.ms'] }] })
    retention = described.resources[0].configEntries[0].configValue
  } while (retention !== '86400000')
  say('retention.ms', retention)

  for (const acks of [-1, 1]) {
    await produce(`plain${acks}`, {}, { acks })
    await produce(`gzip${acks}`, {}, { acks, compression: CompressionTypes.GZIP })
    await produce(`snappy${acks}`, {}, { acks, compression: CompressionTypes.Snappy })
  }
  await produce('unasked', {}, { acks: 0 })
  await produce('idempotent', { idempotent: true, maxInFlightRequests: 1 }, { acks: -1 })
  const first = kafka.producer({ transactionalId: 'first', idempotent: true, maxInFlightRequests: 1 })
  await first.connect()
  const begun = await first.transaction()
  await begun.send({ topic: 't', messages: [{ key: 'first', value: 'first 0' }] })
  await begun.commit()
  await first.disconnect()
  sent.set('first 0', 1)
  say('produced', sent.size)

  const found = await consume('alone', 1, sent.size)
  say('read', found.size, [...found.values()].every(count => count === 1) ? 'once' : 'more than once')
  const together = await consume('two', 2, sent.size)
  say('read', together.size)

  say('change')
  await lines.next()
  await produce('after', { idempotent: true, maxInFlightRequests: 1 }, { acks: -1 })
  const rest = await consume('alone', 1, 100)
  say('went on with', rest.size, [...rest.keys()].every(value => value.startsWith('after ')) ? 'new' : 'old')

  const transactional = kafka.producer({ transactionalId: 'js', idempotent: true, maxInFlightRequests: 1 })
  await transactional.connect()
  const given = await transactional.transaction()
  await given.send({ topic: 't', messages: [{ key: 'x', value: 'given 0' }] })
  await given.sendOffsets({ consumerGroupId: 'positions',
                            topics: [{ topic: 't', partitions: [{ partition: 0, offset: '5' }] }] })
  await given.commit()
  const taken = await transactional.transaction()
  await taken.send({ topic: 't', messages: [{ key: 'x', value: 'taken 0' }] })
  await taken.abort()
  await transactional.disconnect()
  const committed = await consume('committed', 1, sent.size + 1)
  say('committed', committed.has('given 0'), 'aborted', committed.has('taken 0'))
  const positions = await admin.fetchOffsets({ groupId: 'positions', topics: ['t'] })
  say('position', positions[0].partitions.find(each => each.partition === 0).offset)

  await admin.setOffsets({ groupId: 'alone', topic: 't', partitions: [{ partition: 0, offset: '1' }] })
  const reset = await admin.fetchOffsets({ groupId: 'alone', topics: ['t'] })
  say('reset to', reset[0].partitions.find(each => each.partition === 0).offset)
  const ends = await admin.fetchTopicOffsets('t')
  await admin.deleteTopicRecords({ topic: 't', partitions: ends.map(each => ({ partition: each.partition, offset: each.high })) })
  const after = await admin.fetchTopicOffsets('t')
  say('empty', after.every(each => each.low === each.high))
  const listed = await admin.listGroups()
  say('groups', listed.groups.map(each => each.groupId).sort().join(','))
  const groups = ['alone', 'two', 'committed', 'positions']
  // kafkajs ignores a LeaveGroup that fails (runner.js, stop), and does not repeat a DeleteGroups: wait for sessions to end.
  while ((await admin.describeGroups(groups)).groups.some(each => each.state !== 'Empty')) await sleep(100)
  await admin.deleteGroups(groups)
  say('groups', (await admin.listGroups()).groups.length)
  say('back')
  await lines.next()
  await admin.deleteTopics({ topics: ['t'], timeout: 60000 })
  while ((await admin.listTopics()).includes('t'));
  await admin.disconnect()
  say('whole')
}

main().then(() => process.stdin.destroy(), error => {
  say('FAILED', JSON.stringify(error.groups || ''), error.stack)
  process.exit(1)
})
