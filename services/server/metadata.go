// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// namespaceKey is metadata that names the namespace that a call is about.
const namespaceKey = "berth-namespace"

// Metadata returns what the metadata of a call says under a key, and whether it
// says anything. To say two things is an error.
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

// Namespace returns the namespace that the metadata of a call names, or the
// configured one if it names none.
func Namespace(ctx context.Context, configured string) (string, error) {
	namespace, given, err := Metadata(ctx, namespaceKey)
	if !given {
		return configured, err
	}
	return namespace, err
}
