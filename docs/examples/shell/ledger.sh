#!/bin/sh
# Spends play money through a ledger: `sh ledger.sh http://127.0.0.1:7301 PROTOS`, with buf on PATH. PROTOS is the folder of the contracts.
set -eu
url=$1/countersign.ledger.v1.LedgerService
protos=$2
details=$(dirname "$0")/rpc/google/rpc/error_details.proto

# One call with a deadline: a mutation without one is refused. Never call again because a call failed; see the page.
call() {
  buf curl --schema "$protos" --protocol grpc --http2-prior-knowledge --timeout 20s --data "$2" "$url/$1"
}

# A refusal's reason and metadata: the ErrorInfo in the details of the error that buf prints. buf leaves out base64's padding.
refusal() {
  jq -r '.details[0].value | . + "=" * (-length % 4 | if . < 0 then . + 4 else . end)' |
    base64 -d | buf convert "$details" --type google.rpc.ErrorInfo --from '-#format=binpb' --to '-#format=json'
}

# Amounts are whole units and nanos; bytes are base64 in JSON.
reserve() {
  request=$(printf '{"messages":[],"model":"example"}' | base64)
  token=$(head -c 16 /dev/urandom | base64)
  call Reserve '{"slot": {"studyId": "shell-study", "episodeId": "episode-1", "turn": '"$1"'}, "attemptToken": "'"$token"'",
    "amount": {"currencyCode": "USD", "units": "'"$2"'"}, "basis": "AMOUNT_BASIS_FLAT", "request": "'"$request"'", "lease": "60s"}'
}

digest=$(head -c 32 /dev/zero | base64)
call OpenAccount '{"requestId": "shell-open", "accountId": "shell-lab", "currencyCode": "USD", "openedBy": "ada"}'
call GrantBudget '{"requestId": "shell-grant", "accountId": "shell-lab", "amount": {"currencyCode": "USD", "units": "2"},
  "grantedBy": "ada", "reason": "pilot"}'
call OpenStudy '{"requestId": "shell-study-open", "accountId": "shell-lab", "studyId": "shell-study", "maxInFlight": 2,
  "cap": {"currencyCode": "USD", "units": "9"}, "manifestDigest": "'"$digest"'", "openedBy": "ada"}'

reserve 1 1 # admitted: one request may be sent now
if reserve 2 5 2>refused.json; then
  echo "5 USD fitted into 1 USD" >&2
  exit 1
fi
refusal <refused.json
