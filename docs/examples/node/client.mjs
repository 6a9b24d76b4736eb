// Spends play money through a ledger: `node client.mjs 127.0.0.1:7301 127.0.0.1:7302 PROTOS FILE`. The arguments: the ledger, the adapter,
// the folder of the contracts, a chat completion as received.

import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';

import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

const [ledgerAddress, adapterAddress, protos, file] = process.argv.slice(2);

// Fields keep the contract's names; 64-bit integers are text, for a JavaScript number cannot hold them all.
const LOADING = { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true, includeDirs: [protos] };
const contract = grpc.loadPackageDefinition(
  protoLoader.loadSync(['countersign/ledger/v1/ledger.proto', 'countersign/adapter/v1/adapter.proto'], LOADING),
).countersign;

// A failed call may have been carried out, so nothing is retried.
const CHANNEL = { 'grpc.enable_retries': 0, 'grpc.enable_http_proxy': 0 };
const credentials = grpc.credentials.createInsecure();
const ledger = new contract.ledger.v1.LedgerService(ledgerAddress, credentials, CHANNEL);
const adapter = new contract.adapter.v1.AdapterService(adapterAddress, credentials, CHANNEL);

/** One call with a deadline: a mutation without one is refused. */
const call = (client, method, request) =>
  new Promise((resolve, reject) => {
    client[method](request, { deadline: Date.now() + 20_000 }, (error, answer) => (error ? reject(error) : resolve(answer)));
  });

// The published error model, as far as Countersign sends it.
const text = (id) => ({ type: 'string', id });
const errors = protoLoader.fromJSON({
  nested: {
    Any: { fields: { type_url: text(1), value: { type: 'bytes', id: 2 } } },
    Status: { fields: { code: { type: 'int32', id: 1 }, message: text(2), details: { rule: 'repeated', type: 'Any', id: 3 } } },
    ErrorInfo: { fields: { reason: text(1), domain: text(2), metadata: { keyType: 'string', ...text(3) } } },
  },
}, LOADING);

/** Why a call was refused: the ErrorInfo in the trailer. */
function reasonOf(error) {
  const [trailer] = error.metadata.get('grpc-status-details-bin');
  if (trailer === undefined) throw error;
  const detail = errors.Status.deserialize(trailer).details.find((one) => one.type_url.endsWith('/google.rpc.ErrorInfo'));
  return errors.ErrorInfo.deserialize(detail.value);
}

const usd = (units) => ({ currency_code: 'USD', units });
const reserve = (turn, units) =>
  call(ledger, 'Reserve', {
    slot: { study_id: 'node-study', episode_id: 'episode-1', turn },
    attempt_token: randomBytes(16),
    amount: usd(units),
    basis: 'AMOUNT_BASIS_FLAT',
    request: Buffer.from('{"messages":[],"model":"example"}'),
    lease: { seconds: '60' },
  });

await call(ledger, 'OpenAccount', { request_id: 'node-open', account_id: 'node-lab', currency_code: 'USD', opened_by: 'ada' });
const grant = { request_id: 'node-grant', account_id: 'node-lab', amount: usd('2'), granted_by: 'ada', reason: 'pilot' };
const { granted_total } = await call(ledger, 'GrantBudget', grant);
await call(ledger, 'OpenStudy', {
  request_id: 'node-study-open',
  account_id: 'node-lab',
  study_id: 'node-study',
  cap: usd('9'),
  max_in_flight: 2,
  manifest_digest: Buffer.alloc(32),
  opened_by: 'ada',
});
const { answer, admission } = await reserve(1, '1');
const refused = await reserve(2, '5').then(() => null, reasonOf);
const judged = await call(adapter, 'Adapt', {
  body: readFileSync(file),
  http_status: 200,
  wire_format: 'WIRE_FORMAT_CHAT_COMPLETIONS',
  identity: { model: 'example' },
  tools: [{ name: 'finish', parameters_json: '{"type": "object", "properties": {}, "additionalProperties": false}' }],
});
ledger.close();
adapter.close();

const attempt = admission.attempt;
const seen = { granted: granted_total.units, answer, attempt, refused, verdict: judged.verdict, judged: judged[judged.verdict] };
console.log(JSON.stringify(seen, (key, value) => (value?.type === 'Buffer' ? Buffer.from(value.data).toString() : value), 2));
