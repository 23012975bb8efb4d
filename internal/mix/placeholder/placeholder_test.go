// SPDX-License-Identifier: Apache-2.0

package placeholder_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/placeholder"
	"berth.dev/berth/test/generators"
)

const image = "registry.example.com/pause:1"

var karpenter = gate.Label{Key: "karpenter.sh/capacity-type", Spot: "spot", OnDemand: "on-demand"}

func resources(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// web is a replica that was limited to spot, with every kind of field set.
func web() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web-1", UID: "6f1c", Labels: map[string]string{"app": "web", "pod-template-hash": "7d"},
		Annotations: map[string]string{v1alpha1.SlotAnnotation: "3", v1alpha1.CapacityTypeAnnotation: "spot", "team": "shop"},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7d", UID: "rs", Controller: new(true)},
		},
	}}
	p.Annotations[v1alpha1.ClaimAnnotation] = gate.ClaimOf(p, capacity.Spot)
	p.Spec = corev1.PodSpec{
		SchedulerName: "berth-scheduler", NodeName: "spot-1", ServiceAccountName: "web",
		PriorityClassName: "high", Priority: new(int32(1000)),
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "mirror"}},
		NodeSelector:     map[string]string{"arch": "arm64", karpenter.Key: "spot"},
		Tolerations:      []corev1.Toleration{{Key: "arm", Operator: corev1.TolerationOpExists}},
		Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: "rack", MatchLabelKeys: []string{"pod-template-hash"}, LabelSelector: &metav1.LabelSelector{
					MatchLabels: map[string]string{"app": "web", "pod-template-hash": "7d"},
				},
			}},
		}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule,
			MatchLabelKeys: []string{"pod-template-hash", "absent"},
			LabelSelector:  &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}},
		Volumes:  []corev1.Volume{{Name: "token"}},
		Overhead: resources("cpu", "50m"),
		InitContainers: []corev1.Container{
			{
				Name: "proxy", RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
				Resources: corev1.ResourceRequirements{Requests: resources("cpu", "100m")},
			},
		},
		Containers: []corev1.Container{{
			Name: "main", Image: "example.com/web:1",
			Ports: []corev1.ContainerPort{
				{Name: "http", ContainerPort: 80, HostPort: 8080}, {Name: "debug", ContainerPort: 90},
			},
			Resources: corev1.ResourceRequirements{
				Requests: resources("cpu", "1", "memory", "1Gi", "nvidia.com/gpu", "2"),
				Limits:   resources("memory", "2Gi", "nvidia.com/gpu", "2"),
			},
		}},
	}
	return p
}

func TestPlaceholderRequestsExactlyWhatItsReplicaRequests(t *testing.T) {
	replica := web()
	before := replica.DeepCopy()
	p := placeholder.Pod(placeholder.Assignment{
		Replica: replica, Type: capacity.OnDemand, Label: karpenter, Tolerations: []corev1.Toleration{
			{Key: "od", Operator: corev1.TolerationOpExists},
		},
	}, image)
	assert.Equal(t, before, replica, "the replica is as it was")

	assert.Equal(t, "berth-placeholder-6f1c", p.Name)
	assert.Equal(t, "shop", p.Namespace)
	assert.Equal(
		t,
		map[string]string{v1alpha1.PlaceholderLabel: "6f1c", v1alpha1.InjectLabel: "disabled", "sidecar.istio.io/inject": "false"},
		p.Labels,
	)
	assert.Equal(t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web-1", UID: "6f1c"}}, p.OwnerReferences)
	assert.Nil(t, metav1.GetControllerOf(p))
	assert.NotContains(t, p.Annotations, v1alpha1.SlotAnnotation)
	assert.NotContains(t, p.Annotations, v1alpha1.ClaimAnnotation)
	assert.Equal(t, "on-demand", p.Annotations[v1alpha1.CapacityTypeAnnotation])
	assert.False(t, governing.Governable(p), "no mix governs it, not even a default one")

	s := p.Spec
	assert.Equal(t, "berth-scheduler", s.SchedulerName)
	assert.Equal(t, placeholder.PriorityClass, s.PriorityClassName)
	assert.Nil(t, s.Priority)
	assert.Empty(t, s.NodeName)
	assert.Empty(t, s.ServiceAccountName)
	assert.False(t, *s.AutomountServiceAccountToken)
	assert.Zero(t, *s.TerminationGracePeriodSeconds)
	assert.Empty(t, s.Volumes)
	assert.Empty(t, s.SchedulingGates)
	assert.Equal(t, replica.Spec.ImagePullSecrets, s.ImagePullSecrets)
	assert.Equal(t, map[string]string{"arch": "arm64", karpenter.Key: "on-demand"}, s.NodeSelector)
	assert.Equal(
		t,
		[]corev1.Toleration{{Key: "arm", Operator: corev1.TolerationOpExists}, {Key: "od", Operator: corev1.TolerationOpExists}},
		s.Tolerations,
	)
	anti := s.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
	assert.Empty(t, anti.MatchLabelKeys, "the values are in the selector already")
	assert.Equal(t, map[string]string{"app": "web", "pod-template-hash": "7d"}, anti.LabelSelector.MatchLabels)
	spread := s.TopologySpreadConstraints[0]
	assert.Empty(t, spread.MatchLabelKeys)
	assert.Equal(
		t,
		[]metav1.LabelSelectorRequirement{{Key: "pod-template-hash", Operator: metav1.LabelSelectorOpIn, Values: []string{"7d"}}},
		spread.LabelSelector.MatchExpressions,
	)

	require.Len(t, s.Containers, 1)
	c := s.Containers[0]
	assert.Equal(t, image, c.Image)
	assert.Equal(t, []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}, c.Ports, "host ports are of the node")
	asked := func(list corev1.ResourceList) map[string]string {
		text := map[string]string{}
		for k, q := range list {
			text[string(k)] = q.String()
		}
		return text
	}
	assert.Equal(t, map[string]string{"cpu": "1150m", "memory": "1Gi", "nvidia.com/gpu": "2"}, asked(c.Resources.Requests))
	assert.Equal(t, map[string]string{"memory": "2Gi", "nvidia.com/gpu": "2"}, asked(c.Resources.Limits))
}

func TestAPlaceholderHasTheSizeOfItsReplica(t *testing.T) {
	replica := web()
	replica.Labels[v1alpha1.ResourceLimitLabel] = "small"
	limit := &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "small"}}
	limit.Spec.NodeSelector = map[string]string{"pool": "batch"}
	p := placeholder.Pod(placeholder.Assignment{Replica: replica, Type: capacity.Spot, Label: karpenter, Size: limit}, image)
	assert.Equal(t, "small", p.Labels[v1alpha1.ResourceLimitLabel], "and no other limit selects it")
	assert.Equal(
		t, map[string]string{"arch": "arm64", "pool": "batch", karpenter.Key: "spot"}, p.Spec.NodeSelector,
		"which autoscalers see",
	)
}

func TestAPlaceholderHasDomainsForTermsThatItsReplicaDecides(t *testing.T) {
	replica := web()
	own := replica.Spec.Affinity.PodAntiAffinity
	own.RequiredDuringSchedulingIgnoredDuringExecution = append(own.RequiredDuringSchedulingIgnoredDuringExecution,
		corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}})
	own.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "zone"}}}
	replica.Spec.Affinity.PodAffinity = &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "region"}},
	}
	before := replica.DeepCopy()
	closed := []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"b"}}}
	p := placeholder.Pod(placeholder.Assignment{
		Replica: replica, Type: capacity.OnDemand, Label: karpenter, Domains: closed, DropAffinity: true, DropAntiAffinity: []int{1},
	}, image)
	assert.Equal(t, before, replica, "the replica is as it was")
	anti := p.Spec.Affinity.PodAntiAffinity
	require.Len(t, anti.RequiredDuringSchedulingIgnoredDuringExecution, 1)
	assert.Equal(t, "rack", anti.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey)
	assert.Len(t, anti.PreferredDuringSchedulingIgnoredDuringExecution, 1, "a preference excludes no node")
	assert.Empty(t, p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	terms := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	require.Len(t, terms, 1)
	assert.Subset(t, terms[0].MatchExpressions, closed)
}

// The placeholder must not tolerate what the replacement does not tolerate: it would reserve capacity that nothing can
// use.
func TestAPlaceholderToleratesWhatTheReplacementWill(t *testing.T) {
	od := corev1.Toleration{Key: "od", Operator: corev1.TolerationOpExists}
	tolerates := func(change func(*corev1.Pod)) bool {
		replica := web()
		delete(replica.Annotations, v1alpha1.ClaimAnnotation)
		change(replica)
		p := placeholder.Pod(
			placeholder.Assignment{Replica: replica, Type: capacity.OnDemand, Label: karpenter, Tolerations: []corev1.Toleration{od}},
			image,
		)
		return slices.Contains(p.Spec.Tolerations, od)
	}
	assert.False(t, tolerates(func(*corev1.Pod) {}), "it is not added without the gate")
	assert.True(t, tolerates(func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, od) }), "its own, or the webhook's")
	assert.True(
		t, tolerates(func(p *corev1.Pod) { p.Annotations[v1alpha1.ClaimAnnotation] = gate.ClaimOf(p, capacity.Spot) }),
		"with the gate",
	)
	assert.True(t, tolerates(gate.Release), "its successor will have the gate again")
}

func TestDevicesByClaimCannotBeHeld(t *testing.T) {
	p := web()
	assert.Empty(t, placeholder.Unable(p))
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	assert.Equal(t, "devices by resource claim", placeholder.Unable(p))
}

// matches implements the scheduler's NodeAffinity.
func matches(p *corev1.Pod, n *corev1.Node) bool {
	ok, _ := nodeaffinity.GetRequiredNodeAffinity(p).Match(n) // a term that cannot be parsed matches nothing
	return ok
}

func attaches(v *corev1.NodeSelector, n *corev1.Node) bool {
	s, err := nodeaffinity.NewNodeSelector(v)
	return err != nil || s.Match(n)
}

// A placeholder may run exactly on the nodes of the type on which its replica may run, by its own constraints, its
// ResourceLimit and its volumes.
func TestAPlaceholderMayRunWhereTheReplacementMayAndNowhereElse(t *testing.T) {
	for name, label := range map[string]gate.Label{
		"a value for each type":   {Key: "type", Spot: "spot", OnDemand: "on-demand"},
		"on-demand has no label":  {Key: "type", Spot: "spot"},
		"a label of the pods too": {Key: "a", Spot: "x", OnDemand: "y"},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				replica := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: *generators.PodSpec(t)}
				delete(replica.Spec.NodeSelector, label.Key) // otherwise it is pinned, and not moved
				if a := replica.Spec.Affinity; a != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil &&
					len(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms) == 0 {
					replica.Spec.Affinity = nil // the API server rejects it
				}
				own := replica.DeepCopy()
				if rapid.Bool().Draw(t, "ungated") && label.Key == "type" {
					replica.Annotations = map[string]string{v1alpha1.ClaimAnnotation: gate.ClaimOf(replica, capacity.Spot)}
					label.Limit(&replica.Spec, capacity.Spot)
				}
				assignment := placeholder.Assignment{
					Replica: replica,
					Type:    rapid.SampledFrom([]capacity.Type{capacity.Spot, capacity.OnDemand}).Draw(t, "type"),
					Label:   label,
				}
				if rapid.Bool().Draw(t, "sized") {
					assignment.Size = generators.ResourceLimit(t, "shop", "small")
					delete(assignment.Size.Spec.NodeSelector, label.Key)
				}
				for range rapid.IntRange(0, 2).Draw(t, "volumes") {
					a := generators.NodeAffinity(t).AsNodeAffinity()
					if a == nil || a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
						continue
					}
					nodes := a.RequiredDuringSchedulingIgnoredDuringExecution
					// The API server rejects others.
					if _, err := nodeaffinity.NewNodeSelector(nodes); err == nil && len(nodes.NodeSelectorTerms) > 0 {
						assignment.Volumes = append(assignment.Volumes, nodes)
					}
				}
				p := placeholder.Pod(assignment, image)
				for range 4 {
					n := generators.Node(t)
					drawn := rapid.SampledFrom([]string{"", "spot", "on-demand"}).Draw(t, "node's type")
					if drawn != "" && label.Key == "type" {
						n.Labels[label.Key] = drawn
					}
					value := label.Spot
					if assignment.Type == capacity.OnDemand {
						value = label.OnDemand
					}
					have, there := n.Labels[label.Key]
					want := matches(own, n) && have == value && there == (value != "")
					if assignment.Size != nil {
						want = want && registry.Compile(assignment.Size).Matches(n)
					}
					for _, v := range assignment.Volumes {
						want = want && attaches(v, n)
					}
					require.Equal(t, want, matches(p, n), "node %v, placeholder %+v %+v", n.Labels, p.Spec.NodeSelector, p.Spec.Affinity)
				}
			})
		})
	}
}

// Whatever containers, sidecars and init containers a replica has, its placeholder uses as much of a node, and the API
// server accepts it.
func TestAPlaceholderTakesAsMuchAsItsReplica(t *testing.T) {
	names := []corev1.ResourceName{
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, "example.com/gpu", "hugepages-2Mi",
	}
	rapid.Check(t, func(t *rapid.T) {
		list := func(what string) corev1.ResourceList {
			l := corev1.ResourceList{}
			for _, n := range names {
				if q := rapid.IntRange(-3, 4).Draw(t, what+" "+string(n)); q >= 0 {
					l[n] = *resource.NewQuantity(int64(q), resource.DecimalSI)
				}
			}
			return l
		}
		container := func(what string) corev1.Container {
			return corev1.Container{
				Name:      what,
				Resources: corev1.ResourceRequirements{Requests: list(what), Limits: list(what + " limits")},
			}
		}
		replica := &corev1.Pod{}
		for range rapid.IntRange(1, 3).Draw(t, "containers") {
			replica.Spec.Containers = append(replica.Spec.Containers, container("main"))
		}
		for range rapid.IntRange(0, 3).Draw(t, "init containers") {
			c := container("init")
			if rapid.Bool().Draw(t, "sidecar") {
				c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			}
			replica.Spec.InitContainers = append(replica.Spec.InitContainers, c)
		}
		if rapid.Bool().Draw(t, "overhead") {
			replica.Spec.Overhead = resources("cpu", "250m")
		}
		if rapid.Bool().Draw(t, "as a whole") {
			replica.Spec.Resources = &corev1.ResourceRequirements{Requests: resources("cpu", "7")}
		}
		p := placeholder.Pod(placeholder.Assignment{Replica: replica, Type: capacity.Spot, Label: karpenter}, image)
		want := resourcehelper.PodRequests(replica, resourcehelper.PodResourcesOptions{})
		got := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
		for _, n := range names {
			w, g := want[n], got[n]
			require.Zero(t, w.Cmp(g), "%s: %s and not %s", n, w.String(), g.String())
		}
		for n, limit := range p.Spec.Containers[0].Resources.Limits {
			asked := got[n]
			require.GreaterOrEqual(t, limit.Cmp(asked), 0, "the limit of %s", n)
			if n == "example.com/gpu" || n == "hugepages-2Mi" {
				require.Zero(t, limit.Cmp(asked))
			}
		}
	})
}
