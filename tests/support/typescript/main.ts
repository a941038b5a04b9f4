// What a program in TypeScript does with the service, by a client generated from its OpenAPI
// document. It prints what it saw, for the test to judge.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const [url, token] = process.argv.slice(2);
const client = createClient<paths>({
  baseUrl: url,
  headers: { Authorization: `Bearer ${token}` },
});
const counter = "shop/größe 42";
const path = { counter };
const seen: Record<string, unknown> = {};

async function record(change: string, key: string): Promise<void> {
  const { data, error, response } = await client.POST("/v1/counters/{counter}/entries", {
    params: { path, header: { "Idempotency-Key": key } },
    body: { change, note: "from TypeScript" },
  });
  if (data) {
    const entry: components["schemas"]["Entry"] = data;
    seen[`record ${change}`] = [response.status, entry.change, entry.note];
  } else {
    const problem: components["schemas"]["Problem"] = error;
    const { type, outcome, retryable } = problem;
    seen[`record ${change}`] = [response.status, type, outcome, retryable];
  }
}

const key = process.argv[4] as string;
await record("12.50", key);
await record("12.5", key);
await record("13", key);

const total = await client.GET("/v1/counters/{counter}", {
  params: { path, query: { max_age: 0 } },
});
seen["total"] = total.data?.value;

const totals = await client.GET("/v1/totals", { params: { query: { id: [counter], max_age: 0 } } });
const problems: Record<string, components["schemas"]["Problem"]> = totals.data?.problems ?? {};
seen["totals"] = [totals.data?.totals.map((one) => one.value), Object.keys(problems)];

const many = await client.POST("/v1/entries", {
  body: { entries: [{ counter, change: "1" }, { counter: "~no", change: "2" }], together: false },
});
seen["many"] = many.data?.results.map((result) => [result.status, result.problem?.type ?? null]);

const described = await client.PATCH("/v1/counters/{counter}/description", {
  params: { path },
  body: { attributes: { size: { number: "42" }, colour: "red" } },
});
seen["described"] = described.data?.attributes;

const history = await client.GET("/v1/counters/{counter}/entries", {
  params: { path, query: { limit: 10 } },
});
seen["history"] = history.data?.entries.map((entry) => entry.change);

const limited = { path: { counter: "key/42" } };
const limit = await client.PUT("/v1/budgets/{counter}", {
  params: limited,
  body: { limit: "5" },
});
const budget = await client.GET("/v1/budgets/{counter}", { params: limited });
seen["budget"] = [limit.data?.limit, budget.data?.free];

async function spend(amount: string): Promise<void> {
  const { data, error, response } = await client.POST("/v1/budgets/{counter}/spends", {
    params: limited,
    body: { amount },
  });
  seen[`spend ${amount}`] = data
    ? [response.status, data.change, data.spending?.grants.length]
    : [response.status, error.type];
}

await spend("4");
await spend("2");

const credit = { params: { ...limited, header: { "Idempotency-Key": key } } };
const given = await client.POST("/v1/budgets/{counter}/credits", {
  ...credit,
  body: { amount: "3" },
});
const again = await client.POST("/v1/budgets/{counter}/credits", {
  ...credit,
  body: { amount: "3.0" },
});
seen["credit"] = [
  given.response.status,
  given.data?.change,
  again.response.status,
  again.data?.change,
];

const book = { path: { book: "book/größe 42" } };

async function transfer(to: string, key: string) {
  return client.POST("/v1/books/{book}/transfers", {
    params: { ...book, header: { "Idempotency-Key": key } },
    body: {
      legs: [
        { account: "customer/alice", asset: "EUR", amount: to },
        { account: "cash", asset: "EUR", amount: "-12.50" },
      ],
      metadata: { order: "17" },
    },
  });
}

const moved = await transfer("12.50", key);
const legs: components["schemas"]["Leg"][] = moved.data?.legs ?? [];
seen["transfer"] = [
  moved.response.status,
  moved.data?.change,
  legs.map((leg) => [leg.account, leg.amount]),
  moved.data?.metadata,
];
await transfer("12.5", key);
const all = await client.GET("/v1/books/{book}/balances", {
  params: { ...book, query: { max_age: 0 } },
});
const one = await client.GET("/v1/books/{book}/balances", {
  params: { ...book, query: { prefix: "customer/", max_age: 0 } },
});
seen["balances"] = [all.data?.assets, one.data?.assets, all.data?.transfers];
const wrong = await transfer("13.50", key);
seen["unbalanced"] = [wrong.response.status, wrong.error?.type, wrong.error?.detail];

console.log(JSON.stringify(seen));
