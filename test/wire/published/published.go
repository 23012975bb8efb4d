// SPDX-License-Identifier: Apache-2.0

// Package published has the deployment units of the published examples of the records system, as its package manager sends them: those of
// its example packages (record, echo, record-events) and of the fixtures of its system tests (functions, WebAssembly, TypeScript). IDs of
// deployments and nodes are random there. An image of a private registry has the host registry.example here.
package published

import (
	_ "embed"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"berth.dev/berth/test/wire/oaashead"
)

//go:embed units.json
var units []byte

// Units returns the units of the examples, as messages of the latest revision. It fails the test for a field that the revision lacks.
func Units(t *testing.T) (all []*oaashead.DeploymentUnit) {
	t.Helper()
	var texts []json.RawMessage
	require.NoError(t, json.Unmarshal(units, &texts))
	for _, text := range texts {
		u := &oaashead.DeploymentUnit{}
		require.NoError(t, protojson.Unmarshal(text, u))
		all = append(all, u)
	}
	return all
}
