// What any client of a Countersign service needs in Node: a service from a contract, one call with a deadline, and the
// reason of a refusal.

import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

// Fields keep the contract's names; 64-bit integers are text, for a JavaScript number cannot hold them all.
const LOADING = { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true };
const CHANNEL = {
  // UNAVAILABLE does not mean that a call was not executed: nothing is retried.
  'grpc.enable_retries': 0,
  // Proxies named in the environment are for the world outside.
  'grpc.enable_http_proxy': 0,
};
const DEADLINE_MILLIS = 20_000;
const DETAILS_KEY = 'grpc-status-details-bin';
const ERROR_INFO_URL = 'type.googleapis.com/google.rpc.ErrorInfo';

// The published error model, as far as Countersign uses it.
const errorModel = protoLoader.fromJSON(
  {
    nested: {
      Any: { fields: { type_url: { type: 'string', id: 1 }, value: { type: 'bytes', id: 2 } } },
      Status: {
        fields: {
          code: { type: 'int32', id: 1 },
          message: { type: 'string', id: 2 },
          details: { rule: 'repeated', type: 'Any', id: 3 },
        },
      },
      ErrorInfo: {
        fields: {
          reason: { type: 'string', id: 1 },
          domain: { type: 'string', id: 2 },
          metadata: { keyType: 'string', type: 'string', id: 3 },
        },
      },
    },
  },
  LOADING,
);

/** The types and services that `files` describe; imports are looked for in `folder` and nowhere else. */
export function loadContract(folder, files) {
  return protoLoader.loadSync(files, { ...LOADING, includeDirs: [folder] });
}

/** The types and services of a contract written down as JSON. */
export function contractFromJson(json) {
  return protoLoader.fromJSON(json, LOADING);
}

/** A client of the service with this full name at `address`. */
export function openClient(contract, serviceName, address) {
  const Client = grpc.makeGenericClientConstructor(contract[serviceName], serviceName);
  return new Client(address, grpc.credentials.createInsecure(), CHANNEL);
}

/** Makes one unary call with a deadline, unless `options` says otherwise; rejects with the gRPC error. */
export function call(client, method, request, options = { deadline: Date.now() + DEADLINE_MILLIS }) {
  return new Promise((resolve, reject) => {
    client[method](request, new grpc.Metadata(), options, (error, answer) => (error ? reject(error) : resolve(answer)));
  });
}

/** How a call was refused: its status, and the reason, domain and metadata of its ErrorInfo. An answer is an error. */
export async function refusal(pending) {
  let answer;
  try {
    answer = await pending;
  } catch (error) {
    return describe(error);
  }
  throw new Error(`expected a refusal, got ${JSON.stringify(answer)}`);
}

function describe(error) {
  const [details] = error.metadata?.get(DETAILS_KEY) ?? [];
  if (details === undefined) throw error;
  const rich = errorModel.Status.deserialize(details);
  const infos = rich.details.filter((detail) => detail.type_url === ERROR_INFO_URL);
  if (infos.length !== 1) throw new Error(`expected one ErrorInfo, got ${infos.length}`);
  const { reason, domain, metadata } = errorModel.ErrorInfo.deserialize(infos[0].value);
  const status = grpc.status[error.code];
  return { status, rich_status: grpc.status[rich.code], message: rich.message, reason, domain, metadata };
}
