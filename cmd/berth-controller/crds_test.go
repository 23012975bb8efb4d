// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
)

var (
	errNoGroup = apierrors.NewNotFound(v1alpha1.Resource("capacitymixes"), "")
	nothing    = &metav1.APIResourceList{}
	complete   = &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "capacitymixes"}, {Name: "capacitymixes/status"}, {Name: "resourcelimits"}, {Name: "schedulingpolicies"}}}
	older      = &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "capacitymixes"}, {Name: "resourcelimits"}}}
	every      = "crd: capacitymixes.berth.dev is not installed\ncrd: resourcelimits.berth.dev is not installed\ncrd: schedulingpolicies.berth.dev is not installed"
)

// api is a discovery whose answer can change.
type api struct {
	mu   sync.Mutex // guards what follows
	list *metav1.APIResourceList
	err  error
}

func (a *api) answer(list *metav1.APIResourceList, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list, a.err = list, err
}

func (a *api) ServerResourcesForGroupVersionWithContext(context.Context, string) (*metav1.APIResourceList, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.list, a.err
}

func TestMissingCRDs(t *testing.T) {
	for name, tc := range map[string]struct {
		list *metav1.APIResourceList
		err  error
		want string
	}{
		"all there":                        {list: complete},
		"the group is not known":           {err: errNoGroup, want: every},
		"the group has other kinds":        {list: nothing, want: every},
		"the CRDs are of an older Berth":   {list: older, want: "crd: schedulingpolicies.berth.dev is not installed"},
		"the API server cannot be queried": {err: errors.New("no route"), want: "crd: capacitymixes.berth.dev: discovery: no route\ncrd: resourcelimits.berth.dev: discovery: no route\ncrd: schedulingpolicies.berth.dev: discovery: no route"},
	} {
		t.Run(name, func(t *testing.T) {
			err := missingCRDs(t.Context(), &api{list: tc.list, err: tc.err}, requiredCRDs(controller.Default()))
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tc.want)
		})
	}
}

func TestNothingIsServedWhenNothingIsMissing(t *testing.T) {
	require.NoError(t, waitForCRDs(t.Context(), &api{list: complete}, requiredCRDs(controller.Default()), controller.Health{BindAddress: "no address"}))
}

func TestWaitEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, waitForCRDs(ctx, &api{err: errNoGroup}, requiredCRDs(controller.Default()), controller.Health{BindAddress: controller.Disabled}))
}

func TestAnAddressInUseIsAnError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	err = waitForCRDs(t.Context(), &api{err: errNoGroup}, requiredCRDs(controller.Default()), controller.Health{BindAddress: l.Addr().String()})
	require.ErrorContains(t, err, "serve probes: listen tcp "+l.Addr().String())
}

func TestProbesNameWhatIsMissingUntilItExists(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())

	a := &api{err: errNoGroup}
	done := make(chan error, 1)
	go func() {
		done <- waitForCRDs(t.Context(), a, requiredCRDs(controller.Default()), controller.Health{BindAddress: address})
	}()
	require.Eventually(t, func() bool { return status(t, address, "/readyz") == http.StatusServiceUnavailable }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, http.StatusOK, status(t, address, "/healthz"))

	a.answer(complete, nil)
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("it still waits")
	}
	l, err = net.Listen("tcp", address)
	require.NoError(t, err, "the address is free for the manager")
	require.NoError(t, l.Close())
}

// status returns 0 if no one answers.
func status(t *testing.T, address, path string) int {
	t.Helper()
	resp, err := http.Get("http://" + address + path)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

func TestOnlyTheCRDsOfControllersThatRunAreRequired(t *testing.T) {
	for list, want := range map[string]string{
		"mix":          "capacitymixes resourcelimits",
		"policies":     "capacitymixes resourcelimits schedulingpolicies",
		"*,-policies":  "capacitymixes resourcelimits",
		"records":      "deploymentrecords deploymenttemplates",
		"environments": "environments databasebackups databasebackupschedules databaserestores",
	} {
		c := controller.Default()
		c.Controllers = strings.Split(list, ",")
		var names []string
		for _, r := range requiredCRDs(c) {
			names = append(names, r.Resource)
		}
		require.Equal(t, want, strings.Join(names, " "), list)
	}
}
