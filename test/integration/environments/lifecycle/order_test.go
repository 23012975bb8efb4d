// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/testenv"
)

func TestAnEnvironmentRunsAndIsDeleted(t *testing.T) {
	s := start(t)
	e := s.runs(environment("shop"))
	assert.Equal(t, "4/4", e.Status.Ready)
	assert.Equal(t, []string{"backend", "frontend", "redis-cache"}, s.names(e, &appsv1.DeploymentList{}))
	assert.Equal(t, []string{"database"}, s.names(e, &appsv1.StatefulSetList{}))
	services := s.names(e, &corev1.ServiceList{})
	for _, name := range []string{"frontend", "backend", "database", "redis-cache"} {
		assert.Contains(t, services, name)
	}
	require.Len(t, e.Status.Ports, 4)

	backend := in(s, e, "backend", &appsv1.Deployment{}).Spec.Template.Spec.Containers[0]
	i := slices.IndexFunc(backend.Env, func(v corev1.EnvVar) bool { return v.Name == "DATABASE_URL" })
	require.GreaterOrEqual(t, i, 0)
	assert.Empty(t, backend.Env[i].Value, "it has a password in it")
	secret := in(s, e, "backend", &corev1.Secret{})
	assert.Regexp(t, `^postgresql://shop:[A-Z2-7]{26}@database:5432/shop$`, string(secret.Data["DATABASE_URL"]))
	for _, p := range s.pods(e, "database") {
		assert.Equal(t, "on-demand", s.runsOn(&p), "a database is where it is safe")
		assert.Equal(t, []string{"pg_isready", "-U", "shop", "-d", "shop", "-h", "localhost", "-p", "5432"}, p.Spec.Containers[0].ReadinessProbe.Exec.Command)
	}
	for _, name := range []string{"frontend", "backend", "redis-cache"} {
		for _, p := range s.pods(e, name) {
			assert.Empty(t, p.Spec.SchedulingGates)
			assert.Equal(t, "berth-scheduler", p.Spec.SchedulerName)
		}
	}

	s.Eventually("the metrics show it", func() (bool, string) {
		running := s.Metric(s.process, "berth_environments", map[string]string{"phase": "Running"})
		came := s.Metric(s.process, "berth_environments_phase_transitions_total", map[string]string{"phase": "Running"})
		started := s.Metric(s.process, "berth_environments_start_duration_seconds_count", nil)
		return running == 1 && came == 1 && started == 1, fmt.Sprint(running, came, started)
	})

	ns := s.namespace(e)
	s.deleted(e)
	s.WaitDeleted(ns)
	// Its pods went first, then what was around them, then the namespace.
	requests := s.AuditAll(func(r testenv.Request) bool { return r.Verb == "delete" && r.OK() && r.Namespace == e.Status.Namespace })
	slices.SortStableFunc(requests, func(a, b testenv.Request) int { return a.At.Compare(b.At) })
	var deleted []string
	for _, r := range requests {
		deleted = append(deleted, r.Resource)
	}
	pods, around, end := slices.Index(deleted, "pods"), slices.Index(deleted, "services"), slices.Index(deleted, "namespaces")
	require.GreaterOrEqual(t, pods, 0, deleted)
	require.Greater(t, around, pods, deleted)
	assert.NotContains(t, deleted[around:], "pods", deleted)
	require.Greater(t, end, around, deleted)
	assert.NotContains(t, deleted[end:], "services", deleted)
}

// A database that does not come up holds back all others, and its pods are gated so that no one schedules them.
func TestAStageWaitsForTheOneBefore(t *testing.T) {
	s := share(t)
	e := environment("held")
	e.Spec.Stack.Database.Container.Resources = &v1alpha1.EnvironmentResources{CPU: "1000"} // no node has that
	s.Create(e)
	s.Eventually("the others are gated", func() (bool, string) {
		e = s.get("held")
		if e.Status.Namespace == "" {
			return false, ""
		}
		for _, name := range []string{"redis-cache", "backend", "frontend"} {
			pods := s.pods(e, name)
			if len(pods) != 1 || len(pods[0].Spec.SchedulingGates) != 1 || pods[0].Spec.SchedulingGates[0].Name != v1alpha1.StageGate {
				return false, name
			}
		}
		return e.Status.Phase == v1alpha1.EnvironmentCreating, string(e.Status.Phase)
	})
	s.until("held", "it has the reason", func(e *v1alpha1.Environment) bool {
		c := e.Status.Components
		return len(c) == 4 && c[0].Reason == "Unschedulable" && c[1].Reason == "WaitsForStage"
	})
	s.change("held", func(e *v1alpha1.Environment) { e.Spec.Stack.Database.Container.Resources.CPU = "100m" })
	e = s.comes("held", v1alpha1.EnvironmentRunning)

	// Each stage's first container started after the one before was ready.
	var last metav1.Time
	for _, name := range []string{"database", "redis-cache", "backend", "frontend"} {
		p := s.pods(e, name)[0]
		assert.Empty(t, p.Spec.SchedulingGates, name)
		scheduled := testenv.PodCondition(&p, corev1.PodScheduled).LastTransitionTime
		assert.False(t, scheduled.Before(&last), "%s was scheduled before the stage before was ready", name)
		last = testenv.PodCondition(&p, corev1.PodReady).LastTransitionTime
	}
}

// Stop in reverse, keep volumes and ports, start again.
func TestAnEnvironmentStopsInReverseAndKeepsItsVolumes(t *testing.T) {
	s := share(t)
	e := environment("kept")
	e.Spec.Stack.Database.PersistentStorage = true
	e = s.runs(e)
	claims, ports := s.names(e, &corev1.PersistentVolumeClaimList{}), e.Status.Ports
	require.Equal(t, []string{"database-data"}, claims)

	record := s.watchPods(e)
	s.change("kept", func(e *v1alpha1.Environment) { e.Spec.RunPolicy = v1alpha1.RunPolicyStopped })
	e = s.comes("kept", v1alpha1.EnvironmentStopped)
	assert.Equal(t, []string{"frontend", "backend", "redis-cache", "database"}, record())
	assert.Equal(t, claims, s.names(e, &corev1.PersistentVolumeClaimList{}))
	assert.Equal(t, int32(0), e.Status.OpenStages)

	s.change("kept", func(e *v1alpha1.Environment) { e.Spec.RunPolicy = v1alpha1.RunPolicyRunning })
	e = s.comes("kept", v1alpha1.EnvironmentRunning)
	assert.Equal(t, ports, e.Status.Ports)

	s.change("kept", func(e *v1alpha1.Environment) { e.Spec.RunPolicy, e.Spec.ForceStop = v1alpha1.RunPolicyStopped, true })
	s.comes("kept", v1alpha1.EnvironmentStopped)
}

// watchPods watches the pods of an environment and returns a function that returns in which order components lost their last.
func (s *scene) watchPods(e *v1alpha1.Environment) func() []string {
	s.T.Helper()
	list := testenv.List(s.World, &corev1.PodList{}, client.InNamespace(e.Status.Namespace))
	watch, err := s.Kube.CoreV1().Pods(e.Status.Namespace).Watch(s.Ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	require.NoError(s.T, err)
	left := map[string]int{}
	for _, p := range list.Items {
		left[p.Labels[v1alpha1.EnvironmentComponentLabel]]++
	}
	return func() (order []string) {
		defer watch.Stop()
		for len(order) < len(left) {
			event, ok := <-watch.ResultChan()
			if !ok {
				return append(order, "the watch ended")
			}
			if p, is := event.Object.(*corev1.Pod); is && event.Type == "DELETED" {
				name := p.Labels[v1alpha1.EnvironmentComponentLabel]
				if left[name]--; left[name] == 0 {
					order = append(order, name)
				}
			}
		}
		return order
	}
}

// A change replaces only what it changes, and is kept as a revision with what changed.
func TestAChangeReplacesWhatItChanges(t *testing.T) {
	s := share(t)
	e := s.runs(environment("shop"))
	before := s.templates(e)
	s.change("shop", func(e *v1alpha1.Environment) { e.Spec.Stack.Frontend.Container.Image = "nginx:1.30" })
	e = s.comes("shop", v1alpha1.EnvironmentRunning)
	assert.Equal(t, []string{"frontend"}, changed(before, s.templates(e)))
	assert.Equal(t, int64(2), e.Status.Revision)
	revision := testenv.Read(s.World, "shop-2", &appsv1.ControllerRevision{})
	assert.Equal(t, "spec.stack.frontend.container.image: nginx:1.29 -> nginx:1.30", revision.Annotations["berth.dev/changes"])

	for i := range 4 {
		s.change("shop", func(e *v1alpha1.Environment) { e.Spec.Stack.Version = fmt.Sprint(i + 10) })
		testenv.Becomes(s.World, "it is kept", int64(3+i), func() int64 { return s.get("shop").Status.Revision })
	}
	assert.Len(t, testenv.List(s.World, &appsv1.ControllerRevisionList{}).Items, 3, "the oldest go")

	// A component that is taken out goes.
	s.change("shop", func(e *v1alpha1.Environment) { e.Spec.Stack.AdditionalServices = nil })
	testenv.Becomes(s.World, "it is gone", 2, func() int { return len(s.names(e, &appsv1.DeploymentList{})) })
}

// What fails later leaves the others and the phase alone, and comes back.
func TestAComponentThatFailsLeavesTheOthers(t *testing.T) {
	s := share(t)
	e := s.runs(environment("shop"))
	database, frontend := s.uid(e, "database"), s.uid(e, "frontend")
	p := s.pods(e, "backend")[0]
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	require.NoError(t, s.Client.Status().Update(s.Ctx, &p))
	s.until("shop", "it is reported", func(e *v1alpha1.Environment) bool {
		notReady := condition(e, v1alpha1.ConditionReady).Status == metav1.ConditionFalse
		return notReady && e.Status.Phase == v1alpha1.EnvironmentRunning && e.Status.Ready == "3/4"
	})
	s.Delete(&p)
	e = s.until("shop", "it is well again", func(e *v1alpha1.Environment) bool {
		return condition(e, v1alpha1.ConditionReady).Status == metav1.ConditionTrue
	})
	assert.Equal(t, []types.UID{database, frontend}, []types.UID{s.uid(e, "database"), s.uid(e, "frontend")})
}

// A port that another environment has is refused with its name, and free again when that is gone.
func TestAPortBelongsToOneEnvironment(t *testing.T) {
	s := share(t)
	first, second := environment("first"), environment("second")
	for _, e := range []*v1alpha1.Environment{first, second} {
		e.Spec.Stack.Frontend.Container.Ports[0].HostPort = 8082
	}
	s.Create(first)
	first = s.comes("first", v1alpha1.EnvironmentRunning)
	s.Create(second)
	second = s.comes("second", v1alpha1.EnvironmentFailed)
	c := condition(second, v1alpha1.ConditionPortsAllocated)
	assert.Equal(t, "PortTaken", c.Reason)
	assert.Contains(t, c.Message, "frontend: host port 8082/TCP is already allocated to environment first")
	s.deleted(first)
	s.evaluateAgain("second")
	s.comes("second", v1alpha1.EnvironmentRunning)
}

// Volumes stay where they should, with their namespace and the password of what is in them: an environment of the same name finds both.
func TestVolumesAreRetained(t *testing.T) {
	s := start(t, func(c *controller.Configuration) {
		c.Environments.Quota, c.Environments.DefaultLimits = map[string]string{"pods": "20"}, map[string]string{"cpu": "1"}
	})
	kept := environment("kept")
	kept.Spec.Stack.Database.PersistentStorage, kept.Spec.VolumeRetention = true, v1alpha1.VolumeRetentionRetain
	s.Create(kept.DeepCopy())
	e := s.comes("kept", v1alpha1.EnvironmentRunning)
	password := s.password(e)
	claim := s.claim(e)
	s.deleted(e)
	assert.Equal(t, []string{"database-data"}, s.names(e, &corev1.PersistentVolumeClaimList{}))
	assert.Equal(t, []string{"database"}, s.names(e, &corev1.SecretList{}))
	s.Create(kept.DeepCopy())
	e = s.comes("kept", v1alpha1.EnvironmentRunning)
	assert.Equal(t, password, s.password(e))
	assert.Equal(t, claim.UID, s.claim(e).UID)
	s.deleted(e)
	assert.Empty(t, s.names(e, &appsv1.DeploymentList{}))
	ns := s.namespace(e)
	assert.Equal(t, "true", ns.Labels["berth.dev/retained"])
	t.Cleanup(func() { _ = s.Client.Delete(s.Ctx, ns) })
}

// In the namespace of its object an environment shares it with what others made, and takes over nothing.
func TestAnEnvironmentInTheNamespaceOfItsObject(t *testing.T) {
	s := start(t, func(c *controller.Configuration) { c.Environments.NamespacePerEnvironment = false })
	s.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "backend"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}})
	s.Create(environment("shop"))
	e := s.comes("shop", v1alpha1.EnvironmentFailed)
	assert.Contains(t, e.Status.Message, "Service backend already exists and belongs to no controller")
	s.Delete(testenv.Read(s.World, "backend", &corev1.Service{}))
	s.evaluateAgain("shop")
	e = s.comes("shop", v1alpha1.EnvironmentRunning)
	assert.Equal(t, s.Namespace, e.Status.Namespace)
	s.change("shop", func(e *v1alpha1.Environment) { // every kind that there is
		e.Spec.Stack.Database.PersistentStorage, e.Spec.VolumeRetention = true, v1alpha1.VolumeRetentionRetain
		e.Spec.Network = &v1alpha1.EnvironmentNetwork{Isolated: true}
		e.Spec.Stack.Frontend.Domains = []string{"shop.example.com"}
		e.Spec.Stack.Backend.Replicas = new(int32(2))
		e.Spec.Stack.Frontend.Container.Resources = &v1alpha1.EnvironmentResources{CPU: "100m"}
		e.Spec.Stack.Frontend.Autoscaling = &v1alpha1.EnvironmentAutoscaling{MaxReplicas: 2}
		once := container("busybox:1", 8080)
		once.RestartPolicy = v1alpha1.RestartNo
		e.Spec.Stack.AdditionalServices = append(e.Spec.Stack.AdditionalServices, v1alpha1.AdditionalService{Name: "once", Container: once})
	})
	testenv.Becomes(s.World, "there is a volume", 1, func() int { return len(s.names(e, &corev1.PersistentVolumeClaimList{})) })

	s.Create(environment("second"))
	second := s.comes("second", v1alpha1.EnvironmentFailed)
	assert.Contains(t, second.Status.Message, "has environment shop already")
	s.deleted(second)
	s.deleted(e)
	// What is retained has no owner: were the environment its owner, the garbage collector would take it. It collects what
	// has an owner, and the Services are gone by it or by us.
	testenv.Becomes(s.World, "all else is gone", 0, func() int {
		return len(s.names(e, &appsv1.DeploymentList{})) + len(s.names(e, &corev1.ServiceList{}))
	})
	claim := s.claim(e)
	assert.Empty(t, claim.OwnerReferences)
	assert.Nil(t, claim.DeletionTimestamp)
	assert.Equal(t, "true", claim.Labels[v1alpha1.RetainedLabel])
	assert.NotEmpty(t, s.password(e))
}

// A restart replaces every component, each stage when the one before is ready again.
func TestARestartGoesStageByStage(t *testing.T) {
	s := share(t)
	e := s.runs(environment("shop"))
	all := []string{"database", "redis-cache", "backend", "frontend"}
	before := map[string]types.UID{}
	for _, name := range all {
		before[name] = s.uid(e, name)
	}
	s.change("shop", func(e *v1alpha1.Environment) { e.Spec.RestartedAt = new(metav1.Now()) })
	s.Eventually("every component is another", func() (bool, string) {
		e = s.get("shop")
		for _, name := range all {
			if pods := s.pods(e, name); len(pods) != 1 || pods[0].UID == before[name] {
				return false, name
			}
		}
		return e.Status.Phase == v1alpha1.EnvironmentRunning, string(e.Status.Phase)
	})
	var last metav1.Time
	for _, name := range all {
		p := s.pods(e, name)[0]
		assert.False(t, p.CreationTimestamp.Before(&last), "%s was replaced before the stage before it was", name)
		last = p.CreationTimestamp
	}
}
