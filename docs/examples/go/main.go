// Spends play money through a ledger: go run . 127.0.0.1:7301 127.0.0.1:7302 FILE. The arguments: the ledger, the adapter, a chat
// completion as received. The packages below example/gen are generated from protos/ by generate.sh.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	adapter "example/gen/adapter"
	ledger "example/gen/ledger"
	money "example/gen/money"
)

// The library retries nothing, and uses no proxy that the environment names.
func dial(address string) *grpc.ClientConn {
	connection, err := grpc.Dial(address, grpc.WithInsecure(), grpc.WithDisableRetry(), grpc.WithNoProxy())
	must(err)
	return connection
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func usd(units int64) *money.Money { return &money.Money{CurrencyCode: "USD", Units: units} }

func reserve(ctx context.Context, client ledger.LedgerServiceClient, turn uint32, units int64) (*ledger.ReserveResponse, error) {
	token := make([]byte, 16)
	_, err := rand.Read(token)
	must(err)
	return client.Reserve(ctx, &ledger.ReserveRequest{
		Slot:         &ledger.Slot{StudyId: "go-study", EpisodeId: "episode-1", Turn: turn},
		AttemptToken: token,
		Amount:       usd(units),
		Basis:        ledger.AmountBasis_AMOUNT_BASIS_FLAT,
		Request:      []byte(`{"messages":[],"model":"example"}`),
		Lease:        durationpb.New(time.Minute),
	})
}

func main() {
	// The deadline goes with every call; a mutation without one is refused.
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	books := ledger.NewLedgerServiceClient(dial(os.Args[1]))

	_, err := books.OpenAccount(ctx, &ledger.OpenAccountRequest{
		RequestId: "go-open", AccountId: "go-lab", CurrencyCode: "USD", OpenedBy: "ada",
	})
	must(err)
	granted, err := books.GrantBudget(ctx, &ledger.GrantBudgetRequest{
		RequestId: "go-grant", AccountId: "go-lab", Amount: usd(2), GrantedBy: "ada", Reason: "pilot",
	})
	must(err)
	fmt.Println("granted", granted.GetGrantedTotal().GetUnits())
	inFlight := uint32(2)
	_, err = books.OpenStudy(ctx, &ledger.OpenStudyRequest{
		RequestId: "go-study-open", AccountId: "go-lab", StudyId: "go-study", Cap: usd(9), MaxInFlight: &inFlight,
		ManifestDigest: make([]byte, 32), OpenedBy: "ada",
	})
	must(err)

	admitted, err := reserve(ctx, books, 1, 1)
	must(err)
	fmt.Println("admitted attempt", admitted.GetAdmission().GetAttempt())

	_, err = reserve(ctx, books, 2, 5)
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			fmt.Println("refused", info.Reason, info.Domain, info.Metadata["available_nanos"], info.Metadata["requested_nanos"])
		}
	}

	body, err := os.ReadFile(os.Args[3])
	must(err)
	judged, err := adapter.NewAdapterServiceClient(dial(os.Args[2])).Adapt(ctx, &adapter.AdaptRequest{
		Body:       body,
		HttpStatus: 200,
		WireFormat: adapter.WireFormat_WIRE_FORMAT_CHAT_COMPLETIONS,
		Identity:   &adapter.ExpectedIdentity{Model: "example"},
		Tools: []*adapter.Tool{
			{Name: "finish", ParametersJson: `{"type": "object", "properties": {}, "additionalProperties": false}`},
		},
	})
	must(err)
	fmt.Println("action", judged.GetAction().GetTool(), string(judged.GetAction().GetArguments()))
}
