// Jobs for kafkajs: one JSON object on standard input, one on standard output, as the Python
// workers beside this file do. Run it as: node kafkajs_worker.cjs FOLDER-OF-THE-LIBRARY
"use strict";

const fs = require("node:fs");

const folder = process.argv[2];
const { CompressionTypes, Kafka, logLevel } = require(folder);
const { version } = require(`${folder}/package.json`);

const PATIENCE_MS = 10000;

const packed = (content) =>
  content === null || content === undefined ? null : Buffer.from(content).toString("base64");
const unpacked = (text) => (text === null ? null : Buffer.from(text, "base64"));

function add(counts, topic, partition) {
  counts[topic] ??= {};
  counts[topic][partition] = (counts[topic][partition] ?? 0) + 1;
}

// kafkajs takes headers as an object, in which a name that comes again has an array.
function headersOf(pairs) {
  const found = {};
  for (const [name, text] of pairs) {
    found[name] = name in found ? [found[name], unpacked(text)].flat() : unpacked(text);
  }
  return found;
}

function pairsOf(headers) {
  return Object.entries(headers ?? {}).flatMap(([name, value]) =>
    [value].flat().map((one) => [name, packed(one)]),
  );
}

async function produce(kafka, job) {
  const sent = {};
  const acknowledged = {};
  const producer = kafka.producer({ allowAutoTopicCreation: false });
  await producer.connect();
  for (const { topic, partition, records } of job.sends) {
    const messages = records.map((one) => ({
      key: unpacked(one.key),
      value: unpacked(one.value),
      headers: headersOf(one.headers),
      partition,
    }));
    messages.forEach(() => add(sent, topic, partition));
    const acks = job.acks === "all" ? -1 : job.acks;
    const compression = job.codec === "gzip" ? CompressionTypes.GZIP : CompressionTypes.None;
    await producer.send({ topic, acks, compression, messages });
    messages.forEach(() => add(acknowledged, topic, partition));
  }
  await producer.disconnect();
  return { acks: job.acks, sent, acknowledged };
}

async function group(kafka, job) {
  const consumed = {};
  const records = [];
  const assignments = [];
  const consumer = kafka.consumer({ groupId: job.group, maxWaitTimeInMs: 500 });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    const held = Object.entries(payload.memberAssignment).flatMap(([topic, parts]) =>
      parts.map((part) => `${topic}/${part}`),
    );
    assignments.push({ first: held.sort() });
  });
  await consumer.connect();
  await consumer.subscribe({ topics: job.topics, fromBeginning: true });
  await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error("not all records came")), PATIENCE_MS).unref();
    const eachMessage = async ({ topic, partition, message }) => {
      add(consumed, topic, partition);
      records.push({
        topic,
        partition,
        offset: Number(message.offset),
        timestamp: Number(message.timestamp),
        key: packed(message.key),
        value: packed(message.value),
        headers: pairsOf(message.headers),
      });
      if (records.length === job.count) {
        resolve();
      }
    };
    consumer.run({ eachMessage }).catch(reject);
  });
  await consumer.disconnect();
  return { consumed, assignments, records };
}

// Node itself writes the key log: node --tls-keylog=FILE.
function tlsOf({ ca, keystore, ciphers, version }) {
  const own = keystore && fs.readFileSync(keystore);
  const versions = version && { minVersion: version, maxVersion: version };
  return { ca: [fs.readFileSync(ca)], key: own, cert: own, ciphers, ...versions };
}

async function main() {
  const job = JSON.parse(fs.readFileSync(0, "utf8"));
  const kafka = new Kafka({
    clientId: job.client_id,
    brokers: [job.bootstrap],
    logLevel: logLevel.ERROR,
    ssl: job.tls && tlsOf(job.tls),
    sasl: job.sasl,
  });
  const about = { library: "kafkajs", version, client_id: job.client_id };
  const counted = await { produce, group }[job.op](kafka, job);
  process.stdout.write(`${JSON.stringify({ ...about, ...counted })}\n`);
}

main().catch((error) => {
  process.stderr.write(`${error}\n`);
  process.exit(1);
});
