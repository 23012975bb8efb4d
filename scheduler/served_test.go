// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
)

// answers are those of discovery, one answer after the other, the last one for good.
type answers []answer

type answer struct {
	resources []string
	err       error
}

func (s *answers) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	next := (*s)[0]
	if len(*s) > 1 {
		*s = (*s)[1:]
	}
	if next.err != nil {
		return nil, next.err
	}
	list := &metav1.APIResourceList{}
	for _, name := range next.resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list, nil
}

func newGates(t *testing.T) featuregate.MutableVersionedFeatureGate {
	t.Helper()
	g := featuregate.NewFeatureGate()
	require.NoError(t, g.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		features.DRADeviceTaintRules: {Default: true, PreRelease: featuregate.Beta},
	}))
	return g
}

func TestAGateWhoseKindIsNotServedIsTurnedOff(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{}, "resource.k8s.io/v1")
	for name, c := range map[string]struct {
		answer   answer
		flag     string
		wantGate bool
	}{
		"the kind is served":               {answer: answer{resources: []string{"resourceclaims", "devicetaintrules"}}, wantGate: true},
		"the kind is not served":           {answer: answer{resources: []string{"resourceclaims"}}},
		"the group is not served":          {answer: answer{err: notFound}},
		"a flag turns the gate on":         {answer: answer{err: notFound}, flag: "DRADeviceTaintRules=true", wantGate: true},
		"a flag turns the gate off":        {answer: answer{resources: []string{"devicetaintrules"}}, flag: "DRADeviceTaintRules=false"},
		"the kind has status, which is no": {answer: answer{resources: []string{"devicetaintrules/status"}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGates(t)
			require.NoError(t, g.Set(c.flag))
			require.NoError(t, unserved(t.Context(), &answers{c.answer}, g, 0, func() { t.Error("it exits") }))
			assert.Equal(t, c.wantGate, g.Enabled(features.DRADeviceTaintRules))
		})
	}
}

func TestTheSchedulerStartsWhileTheAPIServerIsAway(t *testing.T) {
	away := answer{err: errors.New("connection refused")}
	for name, c := range map[string]struct {
		then     answer
		wantExit bool
	}{
		"and stays if the kind is served": {then: answer{resources: []string{"devicetaintrules"}}},
		"and ends if it is not":           {then: answer{}, wantExit: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			g, s := newGates(t), &answers{away, away, c.then}
			exited := make(chan struct{})
			require.NoError(t, unserved(ctx, &counted{lister: s, last: cancel, calls: 3}, g, time.Millisecond, func() { close(exited) }))
			assert.True(t, g.Enabled(features.DRADeviceTaintRules))
			<-ctx.Done()
			if c.wantExit {
				<-exited
				return
			}
			assert.Empty(t, exited)
		})
	}
}

// counted calls last at its last call.
type counted struct {
	lister
	calls int
	last  func()
}

func (c *counted) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	if c.calls--; c.calls == 0 {
		defer c.last()
	}
	return c.lister.ServerResourcesForGroupVersion(version)
}
