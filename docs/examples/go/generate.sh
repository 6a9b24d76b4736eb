#!/bin/sh
# Generates the Go packages: `sh generate.sh PROTOS OUT`, with protoc, protoc-gen-go and protoc-gen-go-grpc on PATH. The contracts name no Go
# package, so the mapping is given here.
set -eu
map=module=example
for one in ledger adapter environment; do
  map="$map,Mcountersign/$one/v1/$one.proto=example/gen/$one"
done
map="$map,Mgoogle/type/money.proto=example/gen/money"
protoc --proto_path="$1" --go_out="$map:$2" --go-grpc_out="$map:$2" \
  countersign/ledger/v1/ledger.proto countersign/adapter/v1/adapter.proto \
  countersign/environment/v1/environment.proto google/type/money.proto
