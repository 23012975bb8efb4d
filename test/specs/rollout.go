// SPDX-License-Identifier: Apache-2.0

package specs

import (
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// Images of a first and of a second revision.
const (
	First  = "example.com/app:1"
	Second = "example.com/app:2"
)

// Rollout is a Deployment, web, that is in its mix and gets new revisions, a quarter at a time.
type Rollout struct {
	*testenv.World
	Mix    split.Mix
	Web    *appsv1.Deployment
	Record *testenv.Recording
}

// StartRollout creates the Deployment, changed if need be, and waits until it is in its mix.
func StartRollout(w *testenv.World, replicas, percent, floor int32, change func(*appsv1.Deployment)) Rollout {
	w.T.Helper()
	m, n := split.New(percent, floor), int(replicas)
	web := builders.Deployment("web", replicas)
	web.Spec.Strategy = appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge: new(intstr.FromString("25%")), MaxUnavailable: new(intstr.FromString("25%")),
		},
	}
	if change != nil {
		change(web)
	}
	w.Create(builders.CapacityMix("web", percent, floor), web)
	w.WaitReady("web", n)
	w.RequireExact("web", m, n)
	return Rollout{World: w, Mix: m, Web: web, Record: w.Record("web")}
}

// Update gives the Deployment another image and so a new revision.
func (r Rollout) Update(image string, changes ...func(*corev1.PodTemplateSpec)) {
	r.T.Helper()
	testenv.Patch(r.World, r.Web, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image = image
		if d.Spec.Template.Annotations == nil { // empty ones are not kept by the API server
			d.Spec.Template.Annotations = map[string]string{}
		}
		for _, change := range changes {
			change(&d.Spec.Template)
		}
	})
}

// RequireDone waits until all pods are Ready and of one image, and demands their exact mix.
func (r Rollout) RequireDone(image string) {
	r.T.Helper()
	replicas := *r.Web.Spec.Replicas
	testenv.WaitFor(r.World, r.Web.Name, "the rollout to "+image+" is complete", func(d *appsv1.Deployment) bool {
		s, n := d.Status, replicas
		return s.ObservedGeneration == d.Generation && s.Replicas == n && s.UpdatedReplicas == n && s.AvailableReplicas == n
	})
	pods := r.Live("web")
	require.Len(r.T, pods, int(replicas))
	for _, p := range pods {
		require.Equal(r.T, image, p.Spec.Containers[0].Image, "the image of pod %s", p.Name)
	}
	r.RequireExactPods(pods, r.Mix)
}

// Surge is how many pods more than its replicas a rollout has at most.
func Surge(replicas int) int { return (replicas + 3) / 4 }

// ARollingUpdateIsExact replaces all pods of a Deployment: it ends in its mix, and on the way every pod runs on the type of
// its slot.
func ARollingUpdateIsExact(w *testenv.World, replicas, percent, floor int32) {
	w.T.Helper()
	r := StartRollout(w, replicas, percent, floor, nil)
	r.Update(Second)
	r.RequireDone(Second)
	r.Record.RequireOnTheirTypes(r.Mix)
}
