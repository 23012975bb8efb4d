// SPDX-License-Identifier: Apache-2.0

package defaulting_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// texts are the quantities of a list as texts, nil of an empty one.
func texts(l corev1.ResourceList) map[string]string {
	if len(l) == 0 {
		return nil
	}
	out := map[string]string{}
	for name, q := range l {
		out[string(name)] = q.String()
	}
	return out
}

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

// created creates a pod, after its limit is known to the webhook, and returns
// what became of it.
func created(w *testenv.World, p *corev1.Pod) *corev1.Pod {
	w.T.Helper()
	w.Eventually("the webhook has the limit of "+p.Name, func() (bool, string) {
		try := p.DeepCopy()
		err := w.DryRun(try)
		return err == nil && try.Annotations[v1alpha1.ResolvedLimitAnnotation] != "", fmt.Sprint("annotations ", try.Annotations, err)
	})
	w.Create(p)
	return p
}

func TestAPodIsCompletedFromItsLimit(t *testing.T) {
	w := testenv.New(t, fast(), slow())
	w.Webhook()
	affinity := builders.SizeRequires(disk, v1alpha1.NodeOpNotIn, "hdd")
	type rules = []func(*v1alpha1.ResourceLimitSpec)
	requests := map[string]string{"cpu": "500m", "memory": "1Gi"}
	for name, tc := range map[string]struct {
		limit                    rules
		change                   func(*corev1.PodTemplateSpec)
		wantRequests, wantLimits map[string]string
		wantSelector             map[string]string
		wantAffinity             bool
		wantNode                 string
	}{
		"rl-04-figures-only": {limit: rules{figures("500m", "1Gi")}, wantRequests: requests, wantLimits: requests},
		"rl-05-selector": {
			limit:        rules{builders.SizeOnNodesWith(disk, "ssd")},
			wantSelector: map[string]string{disk: "ssd"}, wantNode: "fast",
		},
		"rl-05-affinity": {limit: rules{affinity}, wantAffinity: true, wantNode: "fast"},
		"rl-05-both": {
			limit:        rules{builders.SizeOnNodesWith("kubernetes.io/hostname", "fast"), affinity},
			wantSelector: map[string]string{"kubernetes.io/hostname": "fast"}, wantAffinity: true, wantNode: "fast",
		},
		"rl-07-limits": {
			limit:        rules{figures("500m", "1Gi"), func(s *v1alpha1.ResourceLimitSpec) { s.CPULimit = quantity("2") }},
			wantRequests: requests, wantLimits: map[string]string{"cpu": "2", "memory": "1Gi"},
		},
		"rl-08-ephemeral-storage": {
			limit:        rules{func(s *v1alpha1.ResourceLimitSpec) { s.EphemeralStorage = quantity("1Gi") }},
			wantRequests: map[string]string{"ephemeral-storage": "1Gi"},
		},
		"rl-08-with-a-limit-of-its-own": {
			limit: rules{func(s *v1alpha1.ResourceLimitSpec) { s.EphemeralStorage = quantity("1Gi") }},
			change: func(t *corev1.PodTemplateSpec) {
				t.Spec.Containers[0].Resources.Limits = list("ephemeral-storage", "512Mi")
			},
			wantRequests: map[string]string{"ephemeral-storage": "512Mi"}, wantLimits: map[string]string{"ephemeral-storage": "512Mi"},
		},
		"its-own-values": {
			limit:        rules{figures("2", "2Gi")},
			change:       func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Resources.Requests = list("cpu", "300m") },
			wantRequests: map[string]string{"cpu": "300m", "memory": "2Gi"}, wantLimits: map[string]string{"cpu": "2", "memory": "2Gi"},
		},
		"its-own-at-pod-level": {
			limit: rules{figures("2", "2Gi")},
			change: func(t *corev1.PodTemplateSpec) {
				t.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "300m"), Limits: list("cpu", "1")}
			},
			wantRequests: map[string]string{"memory": "2Gi"}, wantLimits: map[string]string{"memory": "2Gi"},
		},
		"a-sidecar-has-its-share": {
			limit: rules{figures("2", "2Gi")},
			change: func(t *corev1.PodTemplateSpec) {
				t.Spec.InitContainers = []corev1.Container{{
					Name: "proxy", Image: "example.com/proxy:1", RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
					Resources: corev1.ResourceRequirements{Requests: list("cpu", "500m"), Limits: list("cpu", "500m")},
				}}
			},
			wantRequests: map[string]string{"cpu": "1500m", "memory": "2Gi"}, wantLimits: map[string]string{"cpu": "1500m", "memory": "2Gi"},
		},
	} {
		w.Run(name, func(t *testing.T, w *testenv.World) {
			w.Create(builders.ResourceLimit(name, tc.limit...))
			change := []func(*corev1.PodTemplateSpec){builders.SchedulerName("")}
			if tc.change != nil {
				change = append(change, tc.change)
			}
			p := created(w, bare(name, name, change...))
			got := p.Spec.Containers[0].Resources
			assert.Equal(t, tc.wantRequests, texts(got.Requests), "requests")
			assert.Equal(t, tc.wantLimits, texts(got.Limits), "limits")
			assert.Equal(t, tc.wantSelector, p.Spec.NodeSelector)
			assert.Equal(t, tc.wantAffinity, p.Spec.Affinity != nil)
			assert.Equal(t, w.Namespace+"/"+name+"@1", p.Annotations[v1alpha1.ResolvedLimitAnnotation])
			assert.Equal(t, builders.Scheduler, p.Spec.SchedulerName)
			if node := waitNode(w, name); tc.wantNode != "" {
				assert.Equal(t, tc.wantNode, node)
			}
		})
	}
}

// The claims are made by the real kube-controller-manager.
func TestVolumesBecomeClaimsOfThePod(t *testing.T) {
	w := testenv.New(t, fast())
	w.Webhook()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}, Provisioner: "example.com/none",
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	w.CreateForTest(class)
	w.Create(builders.ResourceLimit("with-volumes", func(s *v1alpha1.ResourceLimitSpec) {
		s.Volumes = map[string]v1alpha1.VolumeLimit{
			"data":    {Size: resource.MustParse("10Gi"), StorageClass: new(class.Name)},
			"scratch": {Size: resource.MustParse("1Gi"), StorageClass: new(class.Name), MountPath: "/tmp/work"},
		}
	}))
	p := created(w, bare("db", "with-volumes"))
	mounts := map[string]string{}
	for _, m := range p.Spec.Containers[0].VolumeMounts {
		mounts[m.Name] = m.MountPath
	}
	assert.Equal(t, "/volumes/data", mounts["data"])
	assert.Equal(t, "/tmp/work", mounts["scratch"])
	for name, size := range map[string]string{"db-data": "10Gi", "db-scratch": "1Gi"} {
		c := testenv.WaitFor(w, name, "it is made", func(*corev1.PersistentVolumeClaim) bool { return true })
		got := c.Spec.Resources.Requests[corev1.ResourceStorage]
		assert.Equal(t, size, got.String())
		assert.Equal(t, class.Name, *c.Spec.StorageClassName)
		assert.Equal(t, p.UID, c.OwnerReferences[0].UID, "it goes with the pod")
	}
}

func TestAChangedLimitCountsForNewPods(t *testing.T) {
	w := testenv.New(t, fast(), slow())
	w.Webhook()
	w.Create(builders.ResourceLimit("size", figures("1", "1Gi"), builders.SizeOnNodesWith(disk, "ssd")))
	before := created(w, bare("before", "size"))
	assert.Equal(t, "fast", waitNode(w, "before"))
	changeLimit(w, "size", func(l *v1alpha1.ResourceLimit) {
		l.Spec.CPU, l.Spec.NodeSelector = quantity("2"), map[string]string{disk: "hdd"}
	})
	generation := func(want string) {
		w.Eventually("the webhook has generation "+want, func() (bool, string) {
			try := bare("try", "size")
			require.NoError(t, w.DryRun(try))
			got := try.Annotations[v1alpha1.ResolvedLimitAnnotation]
			return got == w.Namespace+"/size@"+want, got
		})
	}
	generation("2")
	after := created(w, bare("after", "size"))
	assert.Equal(t, "2", texts(after.Spec.Containers[0].Resources.Requests)["cpu"])
	assert.Equal(t, "slow", waitNode(w, "after"))
	changeLimit(w, "size", func(l *v1alpha1.ResourceLimit) { l.Spec.NodeSelector = nil })
	generation("3")
	free := created(w, bare("free", "size", builders.OnNodesWith(disk, "ssd")))
	assert.Equal(t, map[string]string{disk: "ssd"}, free.Spec.NodeSelector, "only the pod's own")
	assert.Equal(t, "fast", waitNode(w, "free"))
	require.NoError(t, w.Client.Get(w.Ctx, client.ObjectKeyFromObject(before), before))
	assert.Equal(t, "1", texts(before.Spec.Containers[0].Resources.Requests)["cpu"], "a running pod keeps what it has")
	assert.Equal(t, "fast", before.Spec.NodeName)
}

func TestACreatorOfAPodIsWarnedAndNotRefused(t *testing.T) {
	w := testenv.New(t)
	w.Webhook()
	w.Create(builders.ResourceLimit("small", figures("1", "1Gi")))
	created(w, bare("fits", "small"))
	config := rest.CopyConfig(w.Cluster.Config())
	heard := &hear{}
	config.WarningHandlerWithContext = heard
	loud, err := client.New(config, client.Options{Scheme: w.Client.Scheme()})
	require.NoError(t, err)
	missing := bare("missing", "nowhere")
	large := bare("large", "small", func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Resources.Requests = list("cpu", "3") })
	for _, p := range []*corev1.Pod{missing, large} {
		p.Namespace = w.Namespace
		require.NoError(t, loud.Create(w.Ctx, p))
	}
	heard.mu.Lock()
	defer heard.mu.Unlock()
	require.Len(t, heard.all, 3)
	assert.Contains(t, heard.all[0], `ResourceLimit "`+w.Namespace+`/nowhere" does not exist`)
	assert.Contains(t, heard.all[1], "limits.cpu is left unset")
	assert.Contains(t, heard.all[2], "cpu request 3 is above 1")
}

func TestPodsThatOptOutAreNotChanged(t *testing.T) {
	w := testenv.New(t, fast())
	w.Webhook(func(c *controller.Configuration) { c.Limits.DefaultNamespace = "default" })
	w.Create(builders.ResourceLimit("size", figures("1", "1Gi")))
	created(w, bare("yes", "size"))
	no := bare("no", "size", builders.SchedulerName(""), func(t *corev1.PodTemplateSpec) { t.Labels[v1alpha1.InjectLabel] = "disabled" })
	w.Create(no)
	assert.Empty(t, no.Annotations[v1alpha1.ResolvedLimitAnnotation])
	assert.Equal(t, corev1.DefaultSchedulerName, no.Spec.SchedulerName)
	other := bare("other", "size", builders.SchedulerName("mine"))
	w.Create(other)
	assert.Equal(t, "mine", other.Spec.SchedulerName, "a scheduler of its own choice")
	w.Inject("no")
	w.Eventually("the webhook is not called for the namespace", func() (bool, string) {
		p := bare("outside", "size")
		require.NoError(t, w.DryRun(p))
		return p.Annotations[v1alpha1.ResolvedLimitAnnotation] == "", ""
	})
}

// A name that the pod's namespace does not have is looked for in the default one.
func TestALimitOfTheDefaultNamespace(t *testing.T) {
	w := testenv.New(t, fast())
	name := "shared-" + w.Namespace
	shared := builders.ResourceLimit(name, figures("700m", "1Gi"))
	shared.Namespace = "default"
	w.CreateAsIs(shared)
	w.Webhook(func(c *controller.Configuration) { c.Limits.DefaultNamespace = "default" })
	p := created(w, bare("p", name))
	assert.Equal(t, "700m", texts(p.Spec.Containers[0].Resources.Requests)["cpu"])
	assert.Equal(t, "default/"+name+"@1", p.Annotations[v1alpha1.ResolvedLimitAnnotation])
	testenv.WaitForIn(w, "default", name, "it names what uses it", func(l *v1alpha1.ResourceLimit) bool {
		return l.Status.PodCount == 1 && l.Status.Workloads[0].Namespace == w.Namespace
	})
	w.Delete(shared)
	testenv.WaitForIn(w, "default", name, "its deletion waits", used(v1alpha1.ReasonDeletionBlocked))
	w.Delete(p, client.GracePeriodSeconds(0))
	w.WaitDeleted(shared)
}
