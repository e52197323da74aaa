#!/usr/bin/env bash
# Formats the storage once and becomes the broker.
#   ADVERTISED           host:port that clients use for port 9092. Without it, wait for the file
#                        /var/lib/kafka/advertised: a mapped port is known only after the start.
#   ADVERTISED_ON_HOST   host:port that clients on the host use for port 9095 (optional); `later`
#                        waits for the file /var/lib/kafka/advertised_on_host
#   KAFKA_HEAP           Java heap, default 256m
#   KAFKA_SETTINGS       further broker settings, one per line
set -euo pipefail
home=/var/lib/kafka
java=(java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+ExitOnOutOfMemoryError -cp '/opt/kafka/jars/*')

for _ in $(seq 600); do
  [ -z "${ADVERTISED:-}" ] && [ -s "$home/advertised" ] && ADVERTISED=$(cat "$home/advertised")
  [ -n "${ADVERTISED:-}" ] && break
  sleep 0.1
done
for _ in $(seq 600); do
  [ "${ADVERTISED_ON_HOST:-}" = later ] || break
  [ -s "$home/advertised_on_host" ] && ADVERTISED_ON_HOST=$(cat "$home/advertised_on_host")
  sleep 0.1
done
[ -n "${ADVERTISED:-}" ] || { echo "set ADVERTISED=host:port, the address that clients use" >&2; exit 1; }

listeners=CLIENTS://0.0.0.0:9092,BROKERS://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093
advertised=CLIENTS://$ADVERTISED,BROKERS://127.0.0.1:9094
if [ -n "${ADVERTISED_ON_HOST:-}" ]; then
  listeners=$listeners,HOST://0.0.0.0:9095
  advertised=$advertised,HOST://$ADVERTISED_ON_HOST
fi
# Brokers speak to themselves on loopback: the advertised address need not exist in the container.
cat >"$home/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
listeners=$listeners
advertised.listeners=$advertised
listener.security.protocol.map=CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT,HOST:PLAINTEXT
inter.broker.listener.name=BROKERS
controller.listener.names=CONTROLLER
log.dirs=$home/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
message.max.bytes=1200000
replica.fetch.max.bytes=1200000
log.cleaner.dedupe.buffer.size=4194304
log.index.size.max.bytes=1048576
${KAFKA_SETTINGS:-}
PROPERTIES

if [ ! -f "$home/data/meta.properties" ]; then
  id=A$(head -c 16 /dev/urandom | base64 | tr "+/" "-_" | cut -c 2-22)
  "${java[@]}" -Xmx64m kafka.tools.StorageTool format --cluster-id="$id" --config "$home/server.properties"
fi
exec "${java[@]}" "-Xmx${KAFKA_HEAP:-256m}" kafka.Kafka "$home/server.properties"
