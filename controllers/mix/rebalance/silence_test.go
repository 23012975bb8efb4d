// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/simulation"
)

// An API server stalls and goes on much later: its late answer would look like any other one, and begin no grace.
func TestNoReadOfTheWorkerWaitsForAnAPIServerThatStalls(t *testing.T) {
	owner := func(kind string) func(*Controller) error {
		return func(c *Controller) error {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: kind, Name: "web", UID: "1", Controller: new(true),
			}}}}
			_, err := c.proof.owners.template(t.Context(), pod, &clusterstate.Group{})
			return err
		}
	}
	for name, read := range map[string]func(*Controller) error{
		"the template of a ReplicaSet":  owner("ReplicaSet"),
		"the template of a StatefulSet": owner("StatefulSet"),
		"a snapshot":                    func(c *Controller) error { return c.proof.takeSnapshot(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
			t.Cleanup(server.Close)
			t.Cleanup(func() { close(end) })
			c, err := New(Options{Config: &rest.Config{Host: server.URL}, Client: kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL}), Clock: clock.RealClock{}, Profile: simulation.DefaultProfile()})
			require.NoError(t, err)
			err = read(c)
			require.Error(t, err)
			assert.True(t, unanswered(err), "%v", err)
		})
	}
}

// A grace that lasts has its cause in the log.
func TestTheLogNamesTheCallWithoutAnAnswerOnce(t *testing.T) {
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	c := testController(t)
	late := fmt.Errorf("list pods of shop: %w", context.DeadlineExceeded)
	for _, err := range []error{late, late, nil, late} {
		c.api.noteOutage(ctx, err)
	}
	require.Len(t, lines, 2, "each outage once")
	assert.Contains(t, lines[0], "list pods of shop")
}
