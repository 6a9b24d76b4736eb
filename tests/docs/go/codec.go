// Debian's grpc-go still marshals with the old protobuf runtime; newer ones need none of this.
package main

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/proto"
)

type v2 struct{}

func (v2) Name() string                            { return "proto" }
func (v2) Marshal(m interface{}) ([]byte, error)   { return proto.Marshal(m.(proto.Message)) }
func (v2) Unmarshal(b []byte, m interface{}) error { return proto.Unmarshal(b, m.(proto.Message)) }
func init()                                        { encoding.RegisterCodec(v2{}) }
