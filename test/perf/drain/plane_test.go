// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

// admitter is the user that admission webhooks write as.
const admitter = "admitter"

// auditPolicy has the audit log hold what the measured wrote, and nothing else: the
// order and the times of bindings, and the writes for each pod.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["` + cluster.BerthSchedulerUser + `", "` + admitter + `"]
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

// plane is a control plane of an API server and etcd alone. No one runs pods or
// watches nodes: what they would do falls on all peers, and on the two
// processors. Its state can be kept and put back, so that every turn begins with
// the same objects, the same history, and a fresh API server.
type plane struct {
	t *testing.T
	*cluster.Cluster
}

func startPlane(ctx context.Context, t *testing.T) *plane {
	t.Helper()
	file := filepath.Join(t.TempDir(), "audit-policy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(auditPolicy), 0o600))
	c, err := cluster.Start(ctx, cluster.Options{
		Out: os.Stderr, NoKWOK: true, NoControllerManager: true, APIServerArgs: []string{"--audit-policy-file=" + file},
	})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	for _, dir := range []string{"manifests/crds", "manifests/rbac"} {
		require.NoError(t, c.ApplyFiles(ctx, testenv.Path(dir)))
	}
	return &plane{t, c}
}

func (p *plane) data() string { return filepath.Join(p.Dir(), "etcd") }

func (p *plane) kept(state string) string { return filepath.Join(p.Dir(), "state-"+state) }

// keep stops the control plane and keeps its state under a name.
func (p *plane) keep(state string) {
	p.t.Helper()
	p.halt()
	require.NoError(p.t, os.CopyFS(p.kept(state), os.DirFS(p.data())))
}

func (p *plane) halt() {
	p.t.Helper()
	for _, name := range []string{cluster.APIServer, cluster.Etcd} {
		require.NoError(p.t, p.StopComponent(name))
	}
}

// restore starts the control plane again from a state, with an empty audit log.
func (p *plane) restore(ctx context.Context, state string) {
	p.t.Helper()
	p.halt()
	require.NoError(p.t, os.RemoveAll(p.data()))
	require.NoError(p.t, os.CopyFS(p.data(), os.DirFS(p.kept(state))), "restore %s", state)
	require.NoError(p.t, os.RemoveAll(p.AuditLogPath()))
	for _, name := range []string{cluster.Etcd, cluster.APIServer} {
		require.NoError(p.t, p.StartComponent(ctx, name))
	}
}
