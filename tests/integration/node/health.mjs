// Asks a server for the health of services and prints the answers as one JSON object. Arguments: the server's address,
// then the services' full names; an empty name asks for the whole server.

import { call, contractFromJson, openClient } from './rpc.mjs';

// The published health protocol, as far as it is asked here.
const contract = contractFromJson({
  nested: {
    grpc: {
      nested: {
        health: {
          nested: {
            v1: {
              nested: {
                HealthCheckRequest: { fields: { service: { type: 'string', id: 1 } } },
                HealthCheckResponse: {
                  fields: { status: { type: 'ServingStatus', id: 1 } },
                  nested: { ServingStatus: { values: { UNKNOWN: 0, SERVING: 1, NOT_SERVING: 2, SERVICE_UNKNOWN: 3 } } },
                },
                Health: {
                  methods: { Check: { requestType: 'HealthCheckRequest', responseType: 'HealthCheckResponse' } },
                },
              },
            },
          },
        },
      },
    },
  },
});

const [address, ...services] = process.argv.slice(2);
const health = openClient(contract, 'grpc.health.v1.Health', address);
const seen = {};
for (const service of services) {
  const { status } = await call(health, 'Check', { service });
  seen[service] = status;
}
health.close();
process.stdout.write(`${JSON.stringify(seen)}\n`);
