// AWS's SDK for JavaScript v3: 25 puts a call, so many calls at a time.
//
//     node batch_write.mjs '{"packages": ".engines", "url": "http://...", "region": "us-east-1",
//                            "table": "ledger", "seconds": 3, "warm_seconds": 1, "callers": 10}'
//
// Prints one line of JSON: what was acknowledged in all, and what the measured part took.
import { createRequire } from "node:module";
import { performance } from "node:perf_hooks";
import { randomBytes } from "node:crypto";
import path from "node:path";

const BATCH = 25;
const AMOUNTS = 9;
const task = JSON.parse(process.argv[2]);
const require = createRequire(path.resolve(task.packages) + path.sep);
const { DynamoDBClient, BatchWriteItemCommand } = require("@aws-sdk/client-dynamodb");
const client = new DynamoDBClient({
  endpoint: task.url,
  region: task.region,
  credentials: { accessKeyId: "local", secretAccessKey: "local" },
});

const acknowledged = { changes: 0, sum: 0 };
let next = 0;
let latencies = [];

function put(number) {
  const at = new Date().toISOString().slice(0, -1) + "000Z";
  return {
    PutRequest: {
      Item: {
        pk: { S: `counter-${number}` },
        sk: { S: `${at}#${randomBytes(8).toString("hex")}` },
        change: { N: String((number % AMOUNTS) + 1) },
        region: { S: task.region },
      },
    },
  };
}

async function call() {
  const first = next;
  next += BATCH;
  const puts = Array.from({ length: BATCH }, (_, place) => put(first + place));
  const started = performance.now();
  const answer = await client.send(
    new BatchWriteItemCommand({ RequestItems: { [task.table]: puts } }),
  );
  if (Object.keys(answer.UnprocessedItems ?? {}).length) throw new Error("left unprocessed");
  latencies.push(performance.now() - started);
  acknowledged.changes += BATCH;
  acknowledged.sum += puts.reduce((sum, one) => sum + Number(one.PutRequest.Item.change.N), 0);
}

async function load(seconds) {
  const end = performance.now() + seconds * 1000;
  const caller = async () => {
    while (performance.now() < end) await call();
  };
  await Promise.all(Array.from({ length: task.callers }, caller));
}

await load(task.warm_seconds);
latencies = [];
const before = { changes: acknowledged.changes, cpu: process.cpuUsage(), at: performance.now() };
await load(task.seconds);
const cpu = process.cpuUsage(before.cpu);
const seconds = (performance.now() - before.at) / 1000;
latencies.sort((one, other) => one - other);
const at = (share) => latencies[Math.min(latencies.length - 1, Math.floor(share * latencies.length))] / 1000;
console.log(
  JSON.stringify({
    sum: acknowledged.sum,
    work: acknowledged.changes - before.changes,
    calls: latencies.length,
    seconds,
    cpu_seconds: (cpu.user + cpu.system) / 1e6,
    p50_seconds: at(0.5),
    p99_seconds: at(0.99),
  }),
);
