// SPDX-License-Identifier: Apache-2.0

// Package inputs_test gives the scheduler annotations and CapacityMixes, good
// and bad ones, and checks what it makes of them and reports about them.
package inputs_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true})) }

// second starts the second scheduler with arguments of the plugin changed.
func second(w *testenv.World, args map[string]any) *cluster.Scheduler {
	w.T.Helper()
	return w.RunScheduler(w.Variant(testenv.SecondScheduler, testenv.PluginArgs("CapacityMix", args)))
}

// mixSources counts live pods by the source of their mix, "" for none.
func mixSources(pods []corev1.Pod) map[string]int {
	sources := map[string]int{}
	for i := range pods {
		sources[pods[i].Annotations[v1alpha1.MixAnnotation]]++
	}
	return sources
}

// replicaSet returns the one ReplicaSet of an app.
func replicaSet(w *testenv.World, app string) *appsv1.ReplicaSet {
	w.T.Helper()
	var found appsv1.ReplicaSetList
	testenv.Becomes(w, "ReplicaSets of "+app, 1, func() int {
		return len(testenv.List(w, &found, client.MatchingLabels(builders.Labels(app))).Items)
	})
	return &found.Items[0]
}

// warnings returns the messages of an object's events with a reason. The same
// event seen more than once is in it as often.
func warnings(w *testenv.World, name, reason string) []string {
	w.T.Helper()
	var messages []string
	for _, e := range w.Events(name) {
		if e.Reason != reason {
			continue
		}
		require.Equal(w.T, corev1.EventTypeWarning, e.Type)
		times := 1
		if e.Series != nil {
			times += int(e.Series.Count)
		}
		for range times {
			messages = append(messages, e.Message)
		}
	}
	return messages
}

// assertWarned waits for a warning about an object, and demands that there is one, with the words.
func assertWarned(w *testenv.World, object, reason string, words ...string) {
	w.T.Helper()
	w.Reaches("warnings about "+object, 1, func() int { return len(warnings(w, object, reason)) })
	said := warnings(w, object, reason)
	if assert.Len(w.T, said, 1, "warnings about %s", object) {
		for _, word := range words {
			assert.Contains(w.T, said[0], word)
		}
	}
}

// on makes annotations of a Deployment itself.
func on(d *appsv1.Deployment, annotations map[string]string) *appsv1.Deployment {
	d.Annotations = annotations
	return d
}

// template makes annotations of a Deployment's pods.
func template(annotations map[string]string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { t.Annotations = annotations }
}

// labelled makes a label of a Deployment itself.
func labelled(d *appsv1.Deployment, key, value string) *appsv1.Deployment {
	d.Labels = map[string]string{key: value}
	return d
}
