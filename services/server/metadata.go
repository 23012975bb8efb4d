// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// NamespaceKey is metadata that names the namespace that a call is about.
const NamespaceKey = "berth-namespace"

// Metadata returns what the metadata of a call says under a key, or otherwise
// if it says nothing. To say two things is an error.
func Metadata(ctx context.Context, key, otherwise string) (string, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	switch values := md.Get(key); len(values) {
	case 0:
		return otherwise, nil
	case 1:
		return values[0], nil
	}
	return "", Invalid(Violation{Field: key, Description: "is given more than once"})
}
