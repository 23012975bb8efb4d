// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// namespaceKey is the metadata with the namespace of a call.
const namespaceKey = "berth-namespace"

// Metadata returns the value of a key in the metadata of a call, and whether it is set. Several values are an error.
func Metadata(ctx context.Context, key string) (value string, given bool, err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	switch values := md.Get(key); len(values) {
	case 0:
		return "", false, nil
	case 1:
		return values[0], true, nil
	}
	return "", true, Invalid(Violation{Field: key, Description: "is given more than once"})
}

// Namespace returns the namespace in the metadata of a call, or the configured one if it is not set.
func Namespace(ctx context.Context, configured string) (string, error) {
	namespace, given, err := Metadata(ctx, namespaceKey)
	if !given {
		return configured, err
	}
	return namespace, err
}
