// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const leading = `leader_election_master_status{name="berth-controller"} 1`

func manifest(t *testing.T, path string) string {
	t.Helper()
	root, err := RepoRoot()
	require.NoError(t, err)
	return filepath.Join(root, "manifests", path)
}

// startController starts the repository's controller with the sample configuration.
func startController(t *testing.T, o ProgramOptions) *Controller {
	t.Helper()
	root, err := RepoRoot()
	require.NoError(t, err)
	o.Binary, err = BuildController(t.Context(), root, os.Stderr, os.Getenv(RaceEnv) != "")
	require.NoError(t, err)
	if o.ConfigFile == "" {
		o.ConfigFile = manifest(t, "controller/config.yaml")
	}
	c, err := shared.StartController(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Kill()
		<-c.Done()
	})
	return c
}

func applyController(t *testing.T) {
	t.Helper()
	require.NoError(t, shared.ApplyFiles(t.Context(), manifest(t, "rbac/namespace.yaml"), manifest(t, "rbac/controller.yaml")))
}

func waitLeading(t *testing.T, c *Controller) {
	t.Helper()
	eventually(t, c.Name+" leads", func(ctx context.Context) (bool, error) {
		metrics, err := c.Get(ctx, "/metrics")
		return strings.Contains(string(metrics), leading), err
	})
}

func terminate(t *testing.T, c *Controller) {
	t.Helper()
	c.Terminate()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	code, err := c.Wait(ctx)
	require.NoError(t, err)
	require.Zero(t, code, c.LogTail(20))
}

func TestControllerServesMetricsToThoseWhoMayReadThem(t *testing.T) {
	applyController(t)
	require.NoError(t, shared.ApplyFiles(t.Context(), manifest(t, "crds")))
	c := startController(t, ProgramOptions{Name: "controller-metrics"})
	waitLeading(t, c)
	metrics, err := c.Get(t.Context(), "/metrics")
	require.NoError(t, err)
	require.Contains(t, string(metrics), "berth_build_info{")

	status := func(token string) int {
		code, _, err := get(t.Context(), c.client, c.URL+"/metrics", token)
		require.NoError(t, err)
		return code
	}
	require.Equal(t, http.StatusUnauthorized, status(""))
	require.NotEqual(t, http.StatusOK, status("made-up")) // controller-runtime answers 500
	// A service account without rights to the path: anybody's pod.
	namespace := newNamespace(t)
	token, err := shared.Client().CoreV1().ServiceAccounts(namespace).
		CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, http.StatusForbidden, status(token.Status.Token))
	terminate(t, c)
}

func TestStandbyControllerTakesOver(t *testing.T) {
	applyController(t)
	require.NoError(t, shared.ApplyFiles(t.Context(), manifest(t, "crds")))
	sample, err := os.ReadFile(manifest(t, "controller/config.yaml"))
	require.NoError(t, err)
	// client-go waits for 1 to 2.2 times the period. The shipped 2 s would leave a slow machine too little of the time.
	config := filepath.Join(t.TempDir(), "config.yaml")
	quick := strings.Replace(string(sample), "retryPeriodSeconds: 2", "retryPeriodSeconds: 1", 1)
	require.NotEqual(t, string(sample), quick)
	require.NoError(t, os.WriteFile(config, []byte(quick), 0o600))
	first := startController(t, ProgramOptions{Name: "controller-first", ConfigFile: config})
	waitLeading(t, first)
	second := startController(t, ProgramOptions{Name: "controller-second", ConfigFile: config, Args: []string{"--log-format=json"}})
	metrics, err := second.Get(t.Context(), "/metrics")
	require.NoError(t, err)
	require.NotContains(t, string(metrics), leading, "it is ready but does not lead")

	start := time.Now()
	terminate(t, first)
	waitLeading(t, second)
	require.Less(t, time.Since(start), 10*time.Second, "a lease that is not released lasts 15 s")
	t.Logf("taken over after %s", time.Since(start))
	terminate(t, second)
}

func TestControllerWithoutItsCRDReportsItAndWaits(t *testing.T) {
	applyController(t)
	crds := dynamic.NewForConfigOrDie(shared.Config()).Resource(crdResource)
	// All of them: the group is served as long as one of its kinds is.
	eventually(t, "the CRDs are gone", func(ctx context.Context) (bool, error) {
		list, err := crds.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		gone := true
		for _, crd := range list.Items {
			if !strings.HasSuffix(crd.GetName(), ".berth.dev") {
				continue
			}
			gone = false
			if err := crds.Delete(ctx, crd.GetName(), metav1.DeleteOptions{}); client.IgnoreNotFound(err) != nil {
				return false, err
			}
		}
		return gone, nil
	})
	eventually(t, "they are not served", func(context.Context) (bool, error) {
		_, err := shared.Client().Discovery().ServerResourcesForGroupVersion("berth.dev/v1alpha1")
		return apierrors.IsNotFound(err), nil
	})
	// A name of its own: logs are appended to, and this one is counted in.
	c := startController(t, ProgramOptions{Name: "controller-early-" + strings.ToLower(rand.Text()[:8]), NoWait: true})
	eventually(t, "it names what is missing", func(ctx context.Context) (bool, error) {
		ready, text, _ := c.Ready(ctx) // an error: it does not listen yet
		require.False(t, ready)
		return strings.Contains(text, "crd: capacitymixes.berth.dev is not installed; crd: resourcelimits.berth.dev is not installed; "+
			"crd: schedulingpolicies.berth.dev is not installed"), nil
	})
	require.NoError(t, shared.ApplyFiles(t.Context(), manifest(t, "crds")))
	require.NoError(t, c.WaitReady(t.Context()))
	log, err := os.ReadFile(c.LogPath())
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(log), "capacitymixes.berth.dev is not installed"), "it is logged once")
	terminate(t, c)
}

// A few questions that would be answered yes if someone widened the role by a star.
func TestControllerHasNoRightItDoesNotNeed(t *testing.T) {
	applyController(t)
	for _, tc := range []struct {
		verb, group, resource, subresource string
		want                               bool
	}{
		{"create", "", "pods", "eviction", true},
		{"patch", "berth.dev", "capacitymixes", "status", true},
		{"list", "storage.k8s.io", "csinodes", "", true},
		{"delete", "", "pods", "", false},
		{"create", "", "pods", "", true}, // with dryRun only: the policy berth-controller-pods
		{"update", "berth.dev", "capacitymixes", "", false},
		{"patch", "berth.dev", "capacitymixes", "", false},
		{"patch", "", "nodes", "", false},
		{"patch", "apps", "deployments", "", false},
		{"list", "", "secrets", "", false},
		{"watch", "storage.k8s.io", "csinodes", "", false},
	} {
		review, err := shared.Client().AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: BerthControllerUser,
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: "default", Verb: tc.verb, Group: tc.group, Resource: tc.resource, Subresource: tc.subresource,
				},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.Equal(t, tc.want, review.Status.Allowed, tc)
	}
}
