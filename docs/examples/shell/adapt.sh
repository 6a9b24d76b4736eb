#!/bin/sh
# Has one response judged: `sh adapt.sh http://127.0.0.1:7302 PROTOS FILE`, with buf on PATH. FILE is a chat completion as received.
set -eu
body=$(base64 <"$3" | tr -d '\n')
buf curl --schema "$2" --protocol grpc --http2-prior-knowledge --timeout 20s --data '{
  "body": "'"$body"'",
  "httpStatus": 200,
  "wireFormat": "WIRE_FORMAT_CHAT_COMPLETIONS",
  "identity": {"model": "example"},
  "tools": [{"name": "finish", "parametersJson": "{\"type\": \"object\", \"properties\": {}, \"additionalProperties\": false}"}]
}' "$1/countersign.adapter.v1.AdapterService/Adapt"
