// Spends money through the ledger and prints what it saw as one JSON object. Arguments: the ledger's address, the folder
// of the contract (protos/).

import { randomBytes } from 'node:crypto';

import { call, loadContract, openClient, refusal } from './rpc.mjs';

const ACCOUNT = 'node-lab';
const STUDY = 'node-study';
const REQUEST = Buffer.from('{"messages":[],"model":"example"}');
const RESPONSE = Buffer.from('{"choices":[],"usage":{"cost":0.1234567891}}');

const [address, protos] = process.argv.slice(2);
const contract = loadContract(protos, [
  'countersign/ledger/v1/ledger.proto',
  'countersign/errordetails/v1/error_reason.proto',
]);
const ledger = openClient(contract, 'countersign.ledger.v1.LedgerService', address);

const usd = (units, nanos) => ({ currency_code: 'USD', units, nanos });
const hex = (bytes) => bytes.toString('hex');
const money = (amount) => ({ currency_code: amount.currency_code, units: amount.units, nanos: String(amount.nanos) });

/** A reservation of a dollar amount for one turn of the only episode. */
function reservation(turn, amount, token) {
  return {
    slot: { study_id: STUDY, episode_id: 'episode-1', turn },
    attempt_token: token,
    amount,
    basis: 'AMOUNT_BASIS_FLAT',
    request: REQUEST,
    lease: { seconds: '60' },
  };
}

async function openBooks() {
  const account = { request_id: 'open-account', account_id: ACCOUNT, currency_code: 'USD', opened_by: 'ada' };
  const grant = {
    request_id: 'grant-1',
    account_id: ACCOUNT,
    amount: usd('1', 250_000_000),
    granted_by: 'ada',
    reason: 'pilot',
  };
  const study = {
    request_id: 'open-study',
    account_id: ACCOUNT,
    study_id: STUDY,
    cap: usd('3', 0),
    max_in_flight: 2,
    manifest_digest: Buffer.alloc(32, 7),
    opened_by: 'ada',
  };
  const opened = await call(ledger, 'OpenAccount', account);
  const granted = await call(ledger, 'GrantBudget', grant);
  const grantedAgain = await call(ledger, 'GrantBudget', grant);
  const studied = await call(ledger, 'OpenStudy', study);
  return {
    account_replayed: opened.replayed,
    granted_total: money(granted.granted_total),
    grant_replayed: [granted.replayed, grantedAgain.replayed],
    study_replayed: studied.replayed,
  };
}

async function reserve(token) {
  const asked = reservation(1, usd('0', 500_000_000), token);
  const first = await call(ledger, 'Reserve', asked);
  const again = await call(ledger, 'Reserve', asked);
  return [first, again].map(({ answer, admission }) => ({
    answer,
    call_id: hex(admission.call_id),
    attempt: admission.attempt,
    replayed: admission.replayed,
  }));
}

async function recordReceipt(callId, token) {
  const { replayed, call: charged } = await call(ledger, 'RecordReceipt', {
    call_id: callId,
    attempt_token: token,
    http_status: 200,
    response: RESPONSE,
    cost: { basis: 'COST_BASIS_PROVIDER_REPORTED', amount_text: '0.1234567891' },
  });
  return {
    replayed,
    state: charged.state,
    reserved: money(charged.reserved),
    accounted: money(charged.accounted),
    request_digest: hex(charged.request_digest),
    response_digest: hex(charged.response_digest),
    amount_text: charged.cost.amount_text,
    lease_nanos: String(nanosOf(charged.lease_expires_at) - nanosOf(charged.reserved_at)),
  };
}

/** A timestamp in nanoseconds since the Unix epoch, exactly. */
function nanosOf({ seconds, nanos }) {
  return BigInt(seconds) * 1_000_000_000n + BigInt(nanos);
}

async function askAgain() {
  const { answer, receipt } = await call(ledger, 'Reserve', reservation(1, usd('0', 500_000_000), randomBytes(16)));
  const { attempt, http_status, response, late } = receipt;
  return { answer, attempt, http_status, response: response.toString(), late };
}

function balances(found) {
  return Object.fromEntries(
    Object.entries(found).map(([name, value]) => [name, name.endsWith('_count') ? value : money(value)]),
  );
}

async function summarize() {
  const summary = await call(ledger, 'Summarize', { account_id: ACCOUNT });
  const { account_id, balances: account, studies, next_page_token } = summary;
  return {
    account_id,
    account: balances(account),
    studies: studies.map((study) => ({
      study_id: study.study_id,
      balances: balances(study.balances),
      blocked: study.blocked,
      max_in_flight: study.max_in_flight,
      call_ceiling: money(study.call_ceiling),
      manifest_digest: hex(study.manifest_digest),
    })),
    next_page_token,
  };
}

/** The refusal with the number that the contract gives its reason. */
async function named(pending) {
  const found = await refusal(pending);
  const values = contract['countersign.errordetails.v1.ErrorReason'].type.value;
  return { ...found, reason_number: values.find(({ name }) => name === `ERROR_REASON_${found.reason}`)?.number };
}

const token = randomBytes(16);
const books = await openBooks();
const reserved = await reserve(token);
const otherToken = await named(call(ledger, 'Reserve', reservation(1, usd('0', 500_000_000), randomBytes(16))));
const receipt = await recordReceipt(Buffer.from(reserved[0].call_id, 'hex'), token);
const answered = await askAgain();
const overBudget = await named(call(ledger, 'Reserve', reservation(2, usd('1', 200_000_000), randomBytes(16))));
const noDeadline = await named(call(ledger, 'Reserve', reservation(2, usd('0', 1), randomBytes(16)), {}));
const summary = await summarize();
const journal = await call(ledger, 'VerifyJournal', { account_id: ACCOUNT });
ledger.close();

const seen = {
  books,
  reserved,
  receipt,
  answered,
  refused: { other_token: otherToken, over_budget: overBudget, no_deadline: noDeadline },
  summary,
  journal,
};
process.stdout.write(`${JSON.stringify(seen)}\n`);
